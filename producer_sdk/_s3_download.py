"""An object read whole: its first part, then the others at once, all of one version; then its checksum."""

from __future__ import annotations

import asyncio
import hashlib
import re
from functools import partial
from typing import Any

from msgspec import Struct

from ._s3_attempt import Attempt
from ._s3_errors import Refusal, S3Refused, get_error
from ._s3_pool import Budget, S3Pool, all_or_none
from .dataref import UNKNOWN_BYTES, DataRef, S3Key
from .errors import InputGone, PayloadTooLarge

PART_BYTES = 8 << 20
RESTARTS = 3
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.ASCII)


class Wanted(Struct, frozen=True):
    """Bytes of an object: the first and the last of them, of the version `etag`, "" any.

    None are wanted where the object is larger than `max_bytes`, nor with `strict` the whole in place of a part.
    """

    place: S3Key
    first: int
    last: int
    etag: str
    max_bytes: int
    strict: bool = False


class Part(Struct, frozen=True):
    """What came: its chunks in order, and the whole object's size, version, and checksum by its metadata."""

    chunks: list[bytes]
    total: int
    etag: str
    sha256: str


class Whole(Struct, frozen=True):
    """An object as it came; `named` is the checksum in its metadata, "" where there is none."""

    data: bytes
    sha256: str
    named: str


async def download(pool: S3Pool, ref: DataRef, budget: Budget, max_bytes: int) -> bytes:
    """The object of the right size and checksum; errors as `Payloads.get` says.

    Bytes that do not have the right checksum are read a second time: a line that garbles them is no reason to refuse,
    the same wrong bytes twice are.
    """
    place, wrong = ref.place, ""
    check_size(ref, max_bytes, max_bytes if ref.nbytes == UNKNOWN_BYTES else ref.nbytes)
    for _ in range(RESTARTS):
        try:
            whole = await _whole(pool, ref, budget, max_bytes)
        except S3Refused as err:
            if err.refusal is Refusal.TAKEN:
                continue
            raise get_error(err, place) from err
        right = ref.sha256 or whole.named
        if not right or whole.sha256 == right:
            return whole.data
        if whole.sha256 == wrong:
            break
        wrong = whole.sha256
    if wrong:
        raise InputGone(f"{place} is not what was stored: its sha256 is {wrong}, and must be {right}.")
    raise InputGone(f"{place} kept changing while it was read.")


async def size_of(pool: S3Pool, ref: DataRef, budget: Budget) -> int:
    """How many bytes the object has; errors as `Payloads.get` says."""
    place = ref.place
    try:
        head = await pool.call(
            budget, lambda attempt: attempt.client.head_object(Bucket=place.bucket, Key=place.key), reads=True
        )
    except S3Refused as err:
        raise get_error(err, place) from err
    return int(head["ContentLength"])


def check_size(ref: DataRef, max_bytes: int, total: int) -> None:
    """Raises InputGone or PayloadTooLarge where an object of `total` bytes is not what is wanted."""
    if ref.nbytes not in (UNKNOWN_BYTES, total):
        raise InputGone(f"{ref.uri} is not what was stored: it has {total} bytes, and must have {ref.nbytes}.")
    if total > max_bytes:
        raise PayloadTooLarge(f"{ref.uri} has {total} bytes; at most {max_bytes} are taken here.")


async def _whole(pool: S3Pool, ref: DataRef, budget: Budget, max_bytes: int) -> Whole:
    first = await _part(pool, Wanted(ref.place, 0, PART_BYTES - 1, "", max_bytes), budget)
    check_size(ref, max_bytes, first.total)
    room = asyncio.Semaphore(pool.parts_at_once)

    async def one(start: int) -> Part:
        last = min(start + PART_BYTES, first.total) - 1
        async with room:
            return await _part(pool, Wanted(ref.place, start, last, first.etag, max_bytes), budget)

    got = sum(map(len, first.chunks))
    rest = await all_or_none(one(start) for start in range(got, first.total, PART_BYTES))
    chunks = [chunk for part in (first, *rest) for chunk in part.chunks]
    return await pool.call(budget, partial(_joined, chunks, first.sha256), reads=True)


async def _part(pool: S3Pool, wanted: Wanted, budget: Budget) -> Part:
    try:
        return await pool.call(budget, partial(read_part, wanted), reads=True)
    except S3Refused as err:
        # An empty object has no first byte, so no range of it can be asked for.
        if err.refusal is not Refusal.EMPTY or wanted.first != 0:
            raise
    return await pool.call(budget, partial(_read_empty, wanted), reads=True)


def _joined(chunks: list[bytes], named: str, attempt: Attempt) -> Whole:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return Whole(b"".join(chunks), digest.hexdigest(), named)


def read_part(wanted: Wanted, attempt: Attempt) -> Part:
    """One request for these bytes, on a thread of the pool."""
    named = {"Bucket": wanted.place.bucket, "Key": wanted.place.key}
    condition = {"IfMatch": wanted.etag} if wanted.etag else {}
    answer = attempt.client.get_object(**named, **condition, Range=f"bytes={wanted.first}-{wanted.last}")
    body = answer["Body"]
    try:
        size, total = _extent(answer, wanted)
        chunks = attempt.read(body, size) if total <= wanted.max_bytes else []
    finally:
        body.close()
    return Part(chunks, total, str(answer.get("ETag", "")), _named_sha256(answer))


def _read_empty(wanted: Wanted, attempt: Attempt) -> Part:
    answer = attempt.client.head_object(Bucket=wanted.place.bucket, Key=wanted.place.key)
    if answer["ContentLength"] != 0:
        raise S3Refused(Refusal.TAKEN, "the object changed while it was read")
    return Part([], 0, str(answer.get("ETag", "")), _named_sha256(answer))


def _extent(answer: dict[str, Any], wanted: Wanted) -> tuple[int, int]:
    """How many bytes the body has, and how many the object."""
    size = int(answer["ContentLength"])
    spoken = _CONTENT_RANGE.fullmatch(str(answer.get("ContentRange", "")))
    if spoken is None:
        # The store passed over the range: the body is the whole object.
        if wanted.first != 0 or (wanted.strict and size > wanted.last + 1):
            raise S3Refused(Refusal.WRONG, "the store does not give ranges of objects")
        return size, size
    first, last, total = map(int, spoken.groups())
    if first != wanted.first or last != min(wanted.last, total - 1) or size != last - first + 1:
        raise S3Refused(Refusal.AGAIN, f"the store gave bytes {first}-{last}, not {wanted.first}-{wanted.last}")
    return size, total


def _named_sha256(answer: dict[str, Any]) -> str:
    return str(answer.get("Metadata", {}).get("headrace-sha256", ""))
