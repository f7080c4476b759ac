"""What a sweep needs of the store: pages of objects, their expiry, deletes, uploads that were never completed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ._s3_attempt import Attempt
from ._s3_errors import Refusal, S3Refused, write_error
from ._s3_facts import expiry
from ._s3_pool import Budget, S3Pool, all_or_none
from .dataref import S3Key

MOST = 1000


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


async def abandon(pool: S3Pool, place: S3Key, upload_id: str, budget: Budget) -> None:
    """Throw away the parts of an upload."""
    named = {"Bucket": place.bucket, "Key": place.key, "UploadId": upload_id}
    try:
        await pool.call(budget, lambda attempt: attempt.client.abort_multipart_upload(**named))
    except S3Refused as err:
        if err.refusal is not Refusal.NO_UPLOAD:
            raise write_error(err, budget.what, "s3:AbortMultipartUpload") from err


async def expiry_ms(pool: S3Pool, place: S3Key, budget: Budget) -> int | None:
    """When an object expires by its metadata."""
    try:
        head = await pool.call(budget, partial(_head, place))
    except S3Refused as err:
        if err.refusal is Refusal.MISSING:
            return None
        raise write_error(err, budget.what, "s3:GetObject") from err
    return expiry(head.get("Metadata", {}))


async def delete(pool: S3Pool, bucket: str, keys: Sequence[str], budget: Budget) -> Deleted:
    """Each by a request of its own: the one for many needs a checksum on which stores do not agree."""
    room = asyncio.Semaphore(pool.parts_at_once)

    async def one(key: str) -> str:
        async with room:
            try:
                await pool.call(budget, lambda attempt: attempt.client.delete_object(Bucket=bucket, Key=key))
            except S3Refused as err:
                if err.refusal is not Refusal.MISSING:
                    return err.reason
        return ""

    reasons = await all_or_none(one(key) for key in keys)
    told = list(zip(keys, reasons, strict=True))
    return Deleted(
        tuple(key for key, reason in told if not reason), tuple((key, reason) for key, reason in told if reason)
    )


def _head(place: S3Key, attempt: Attempt) -> dict[str, Any]:
    head: dict[str, Any] = attempt.client.head_object(Bucket=place.bucket, Key=place.key)
    return head


async def _asked(pool: S3Pool, budget: Budget, right: str, work: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = await pool.call(budget, work)
    except S3Refused as err:
        raise write_error(err, budget.what, right) from err
    return answer


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
