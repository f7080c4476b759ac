"""What a store must be able to do, tried on an object that is deleted again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ._s3_download import download
from ._s3_errors import S3Refused
from ._s3_pool import Budget, S3Pool
from ._s3_upload import PutOrder, upload
from .claim_keys import claim_key
from .dataref import DataRef, S3Key
from .errors import HeadraceError

_PROBE = b"headrace doctor"
_OTHER = b"another answer"


async def check_bucket(pool: S3Pool, bucket: str, now_ms: int, budget: Budget) -> list[tuple[str, str]]:
    """Steps tried, in order, each with what is wrong, "" for nothing; only a failed put ends them.

    The object has a claim's key that expires now: a sweep deletes what an interrupted check leaves.
    """
    place = S3Key(bucket, claim_key(now_ms))

    async def put(data: bytes, only_new: bool) -> bool:
        return (await upload(pool, PutOrder(place, memoryview(data), {}, only_new, now_ms), budget))[1]

    async def first_put() -> str:
        await put(_PROBE, False)
        return ""

    async def get() -> str:
        data = await download(pool, DataRef(str(place)), budget, max_bytes=len(_PROBE))
        return "" if data == _PROBE else f"{place} came back changed"

    async def second_put() -> str:
        existed = await put(_OTHER, True)
        return "" if existed else "the store overwrites objects although told not to (If-None-Match: *)"

    async def gone() -> str:
        await pool.call(budget, lambda attempt: attempt.client.delete_object(Bucket=bucket, Key=place.key))
        return ""

    steps = {"put": first_put, "get": get, "conditional put": second_put, "delete": gone}
    return await _tried(steps)


async def _tried(steps: Mapping[str, Callable[[], Awaitable[str]]]) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    for name, step in steps.items():
        try:
            fault = await step()
        except (HeadraceError, S3Refused) as err:
            fault = err.message if isinstance(err, HeadraceError) else str(err)
        told.append((name, fault))
        # What is left behind is still to be deleted, unless nothing was put.
        if fault and name == "put":
            break
    return told
