"""An object read part by part into a place of the caller's: no more than a few parts of it are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ._s3_attempt import Attempt
from ._s3_download import PART_BYTES, RESTARTS, Part, Wanted, check_size, read_part
from ._s3_errors import Refusal, S3Refused, get_error
from ._s3_pool import Budget, S3Pool, all_or_none
from .dataref import DataRef
from .errors import InputGone

# Takes the offset of what has come, and its chunks; on a thread of the pool, several at once, some bytes twice.
Write = Callable[[int, Sequence[bytes]], None]


async def download_to(pool: S3Pool, ref: DataRef, write: Write, budget: Budget) -> None:
    """All parts of an object whose size is known, of one version of it; errors as `Payloads.get` says."""
    for _ in range(RESTARTS):
        try:
            return await _whole(pool, ref, write, budget)
        except S3Refused as err:
            if err.refusal is not Refusal.TAKEN:
                raise get_error(err, ref.place) from err
    raise InputGone(f"{ref.uri} kept changing while it was read.")


async def _whole(pool: S3Pool, ref: DataRef, write: Write, budget: Budget) -> None:
    async def one(start: int, etag: str) -> Part:
        last = min(start + PART_BYTES, ref.nbytes) - 1
        wanted = Wanted(ref.place, start, last, etag, ref.nbytes, strict=last < ref.nbytes - 1)
        async with room:
            return await pool.call(budget, partial(_copy, wanted, write), reads=True)

    room = asyncio.Semaphore(pool.parts_at_once)
    first = await one(0, "")
    check_size(ref, ref.nbytes, first.total)
    await all_or_none(one(start, first.etag) for start in range(PART_BYTES, ref.nbytes, PART_BYTES))


def _copy(wanted: Wanted, write: Write, attempt: Attempt) -> Part:
    part = read_part(wanted, attempt)
    write(wanted.first, part.chunks)
    return Part([], part.total, part.etag, part.sha256)
