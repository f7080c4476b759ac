"""An object stored whole: small ones in one request, large ones in parts that count only once they are completed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from functools import partial
from typing import Any

from msgspec import Struct

from ._s3_attempt import Attempt, Outgoing
from ._s3_errors import PayloadUnavailable, Refusal, S3Refused, write_error
from ._s3_facts import EXPIRES, SHA256, as_ref
from ._s3_pool import Budget, S3Pool, all_or_none
from .broker import Misconfigured
from .dataref import DataRef, S3Key

SINGLE_BYTES = 16 << 20
PART_BYTES = 8 << 20
_SMALL_BYTES = 256 << 10
_ABORT_S = 10.0
_AGAIN = frozenset((Refusal.AGAIN, Refusal.CONFLICT))


class PutOrder(Struct, frozen=True):
    """What to store where; with `only_new`, unless something is there."""

    place: S3Key
    data: memoryview
    metadata: dict[str, str]
    only_new: bool
    expires_ms: int | None


class Prepared(Struct, frozen=True):
    """An order with its checksum (32 bytes), and what boto3 is told of it whichever way it goes."""

    order: PutOrder
    digest: bytes
    named: dict[str, Any]
    described: dict[str, Any]
    condition: dict[str, Any]


async def upload(pool: S3Pool, order: PutOrder, budget: Budget) -> tuple[DataRef, bool]:
    """A reference to what is there now, and whether that was there before; errors as `Payloads.put` says."""
    put = await pool.call(budget, partial(_prepared, order, pool.settings.kms_key))
    store = _in_one if order.data.nbytes <= SINGLE_BYTES else _in_parts
    while True:
        try:
            await store(pool, put, budget)
        except S3Refused as err:
            if err.refusal not in (Refusal.TAKEN, Refusal.CONFLICT, Refusal.NO_UPLOAD):
                raise _error(err, order) from err
            there = await _there(pool, put, budget)
            # An upload in parts that is not known any more was completed by a try whose answer was lost, or not at all.
            if there is not None and (err.refusal is Refusal.TAKEN or there.sha256 == put.digest.hex()):
                return there, err.refusal is Refusal.TAKEN
            await pool.pause(budget, err.reason)
        else:
            return DataRef(str(order.place), put.digest.hex(), order.data.nbytes, order.expires_ms), False


def _error(err: S3Refused, order: PutOrder) -> Misconfigured:
    if order.only_new and "NotImplemented" in err.reason:
        return Misconfigured(f"Cannot put {order.place}: the store knows no conditional put (If-None-Match).")
    return write_error(err, f"put {order.place}", "s3:PutObject")


def _prepared(order: PutOrder, kms_key: str | None, attempt: Attempt) -> Prepared:
    digest = hashlib.sha256(order.data).digest()
    metadata = order.metadata | {SHA256: digest.hex()}
    if order.expires_ms is not None:
        metadata[EXPIRES] = str(order.expires_ms)
    encryption = {} if kms_key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}
    return Prepared(
        order=order,
        digest=digest,
        named={"Bucket": order.place.bucket, "Key": order.place.key},
        described={"Metadata": metadata, **encryption},
        condition={"IfNoneMatch": "*"} if order.only_new else {},
    )


async def _there(pool: S3Pool, put: Prepared, budget: Budget) -> DataRef | None:
    place = put.order.place
    try:
        return await pool.call(budget, lambda attempt: as_ref(place, attempt.client.head_object(**put.named)))
    except S3Refused as err:
        if err.refusal is Refusal.MISSING:
            return None
        raise write_error(err, f"look at {place}, which is there already", "s3:GetObject") from err


async def _in_one(pool: S3Pool, put: Prepared, budget: Budget) -> None:
    await pool.call(budget, partial(_put, put), again=_AGAIN)


def _put(put: Prepared, attempt: Attempt) -> None:
    data = put.order.data
    attempt.client.put_object(
        **put.named,
        **put.described,
        **put.condition,
        # boto3 has the store ask for a body that it reads: a round trip, which large ones are worth.
        Body=bytes(data) if data.nbytes <= _SMALL_BYTES else Outgoing(data, attempt),
        # The store compares, so what it says yes to is what was sent.
        ChecksumSHA256=base64.b64encode(put.digest).decode(),
    )


async def _in_parts(pool: S3Pool, put: Prepared, budget: Budget) -> None:
    """1 begin, 2 send all parts, 3 complete: only then is there an object. If one fails, the parts are thrown away."""
    if put.order.only_new and await _there(pool, put, budget) is not None:
        # Told before anything is sent; what comes there meanwhile is seen when the upload is completed.
        raise S3Refused(Refusal.TAKEN, "an object is there already")
    begun = await pool.call(
        budget, lambda attempt: attempt.client.create_multipart_upload(**put.named, **put.described)
    )
    named = {**put.named, "UploadId": begun["UploadId"]}
    room = asyncio.Semaphore(pool.parts_at_once)

    async def one(number: int, start: int) -> dict[str, Any]:
        data = put.order.data[start : start + PART_BYTES]
        async with room:
            return await pool.call(budget, partial(_send_part, named, number, data))

    try:
        starts = range(0, put.order.data.nbytes, PART_BYTES)
        parts = await all_or_none(one(number, start) for number, start in enumerate(starts, 1))
        await pool.call(budget, partial(_complete, {**named, **put.condition}, parts))
    except (S3Refused, PayloadUnavailable, asyncio.CancelledError):
        pool.chore(_throw_away(pool, put.order.place, named), f"abort an upload to {put.order.place}")
        raise


def _send_part(named: dict[str, Any], number: int, data: memoryview, attempt: Attempt) -> dict[str, Any]:
    answer = attempt.client.upload_part(**named, PartNumber=number, Body=Outgoing(data, attempt))
    return {"PartNumber": number, "ETag": answer["ETag"]}


def _complete(named: dict[str, Any], parts: list[dict[str, Any]], attempt: Attempt) -> None:
    attempt.client.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})


async def _throw_away(pool: S3Pool, place: S3Key, named: dict[str, Any]) -> None:
    # A part whose thread is still sending would outlive the abort.
    await pool.wait_for_ended()
    budget = Budget(f"abort an upload to {place}", _ABORT_S)
    try:
        await pool.call(budget, lambda attempt: attempt.client.abort_multipart_upload(**named))
    except (S3Refused, PayloadUnavailable):
        pass  # the bucket's lifecycle rule and the sweep find it
