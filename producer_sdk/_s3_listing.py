"""What a sweep needs of the store: pages of objects, their expiry, deletes, uploads that were never completed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from ._s3_errors import Refusal, S3Refused, write_error
from ._s3_facts import expiry
from ._s3_pool import Budget, S3Pool, all_or_none

MOST = 1000
T = TypeVar("T")
R = TypeVar("R")


class StoredObject(Struct, frozen=True):
    """An object as a listing tells of it; `modified_ms` is milliseconds since 1970."""

    key: str
    nbytes: int
    modified_ms: int


class Listing(Struct, frozen=True):
    """A page of objects in the order of their keys, and whether others follow."""

    objects: tuple[StoredObject, ...]
    more: bool


class Deleted(Struct, frozen=True):
    """Which keys are gone, and which stay, each with the reason."""

    keys: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


class Unfinished(Struct, frozen=True):
    """An upload in parts that was begun; `begun_ms` is milliseconds since 1970."""

    key: str
    upload_id: str
    begun_ms: int


async def list_page(pool: S3Pool, bucket: str, prefix: str, after: str, most: int, budget: Budget) -> Listing:
    """Objects whose keys come after `after`."""
    options = {"StartAfter": after} if after else {}
    asked = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": min(most, MOST), **options}
    page = await _asked(pool, budget, "s3:ListBucket", lambda attempt: attempt.client.list_objects_v2(**asked))
    objects = [StoredObject(each["Key"], each["Size"], _ms(each["LastModified"])) for each in page.get("Contents", [])]
    return Listing(tuple(objects), bool(page.get("IsTruncated")))


async def unfinished(pool: S3Pool, bucket: str, prefix: str, budget: Budget) -> Sequence[Unfinished]:
    """Uploads begun under a prefix."""
    asked = {"Bucket": bucket, "Prefix": prefix, "MaxUploads": MOST}
    page = await _asked(
        pool,
        budget,
        "s3:ListBucketMultipartUploads",
        lambda attempt: attempt.client.list_multipart_uploads(**asked),
    )
    return [Unfinished(each["Key"], each["UploadId"], _ms(each["Initiated"])) for each in page.get("Uploads", [])]


async def abandon(pool: S3Pool, bucket: str, uploads: Sequence[Unfinished], budget_s: float) -> None:
    """Throw away the parts of uploads."""

    async def one(upload: Unfinished) -> None:
        named = {"Bucket": bucket, "Key": upload.key, "UploadId": upload.upload_id}
        budget = Budget(f"abort an upload to s3://{bucket}/{upload.key}", budget_s)
        try:
            await pool.call(budget, lambda attempt: attempt.client.abort_multipart_upload(**named))
        except S3Refused as err:
            if err.refusal is not Refusal.NO_UPLOAD:
                raise write_error(err, budget.what, "s3:AbortMultipartUpload") from err

    await _in_turn(pool, uploads, one)


async def expiries_ms(pool: S3Pool, bucket: str, keys: Sequence[str], budget_s: float) -> list[int | None]:
    """When objects expire by their metadata."""

    async def one(key: str) -> int | None:
        budget = Budget(f"look at s3://{bucket}/{key}", budget_s)
        try:
            head = await pool.call(budget, lambda attempt: attempt.client.head_object(Bucket=bucket, Key=key))
        except S3Refused as err:
            if err.refusal is Refusal.MISSING:
                return None
            raise write_error(err, budget.what, "s3:GetObject") from err
        return expiry(head.get("Metadata", {}))

    return await _in_turn(pool, keys, one)


async def delete(pool: S3Pool, bucket: str, keys: Sequence[str], budget_s: float) -> Deleted:
    """Each by a request of its own: the one for many needs a checksum on which stores do not agree."""

    async def one(key: str) -> str:
        budget = Budget(f"delete s3://{bucket}/{key}", budget_s)
        try:
            await pool.call(budget, lambda attempt: attempt.client.delete_object(Bucket=bucket, Key=key))
        except S3Refused as err:
            if err.refusal is not Refusal.MISSING:
                return err.reason
        return ""

    reasons = await _in_turn(pool, keys, one)
    told = list(zip(keys, reasons, strict=True))
    return Deleted(
        tuple(key for key, reason in told if not reason), tuple((key, reason) for key, reason in told if reason)
    )


async def _in_turn(pool: S3Pool, items: Sequence[T], work: Callable[[T], Coroutine[Any, Any, R]]) -> list[R]:
    """What it gives for each. A request's time counts from its turn: many are not late because they are many."""
    room = asyncio.Semaphore(pool.at_once)

    async def one(item: T) -> R:
        async with room:
            return await work(item)

    return await all_or_none(one(item) for item in items)


async def _asked(pool: S3Pool, budget: Budget, right: str, work: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = await pool.call(budget, work)
    except S3Refused as err:
        raise write_error(err, budget.what, right) from err
    return answer


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
