"""An upload that fails or is cancelled half-way leaves no object and no parts."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from payload_rig import LARGE, Rig, rigged
from s3 import Fault, S3Server
from worker_rig import until

from producer_sdk.payloads import Misconfigured, PayloadUnavailable


@pytest.fixture
async def rig(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with rigged(s3, monkeypatch) as rig:
        yield rig


def nothing_is_left(rig: Rig) -> bool:
    return rig.s3.keys(rig.bucket) == [] and rig.s3.uploads(rig.bucket) == []


async def test_a_cancelled_upload_leaves_nothing(rig: Rig) -> None:
    rig.proxy.inject(Fault(hangs=True), method="PUT", match="partNumber=2")
    writing = asyncio.create_task(rig.stored(LARGE, "a"))
    await until(lambda: any("partNumber=2" in each for each in rig.proxy.asked))
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert rig.s3.keys(rig.bucket) == []
    await rig.payloads.close()
    assert nothing_is_left(rig)


@pytest.mark.parametrize("at", ["partNumber=4", "uploadId"])
async def test_an_upload_out_of_time_leaves_nothing(rig: Rig, at: str) -> None:
    method = "PUT" if at == "partNumber=4" else "POST"
    rig.proxy.inject(Fault(status=503), method=method, match=at, times=None)
    with pytest.raises(PayloadUnavailable, match="Could not put"):
        await rig.payloads.put(rig.bucket, "a", bytes(LARGE), budget_s=1.5)
    await rig.payloads.close()
    assert nothing_is_left(rig)


async def test_an_upload_that_is_refused_leaves_nothing(rig: Rig) -> None:
    rig.proxy.inject(Fault(status=403, code="AccessDenied"), method="PUT", match="partNumber=3")
    with pytest.raises(Misconfigured, match="Grant s3:PutObject"):
        await rig.stored(LARGE, "a")
    await rig.payloads.close()
    assert nothing_is_left(rig)


async def test_what_a_dead_process_left_is_found_and_thrown_away(rig: Rig) -> None:
    rig.s3.client.create_multipart_upload(Bucket=rig.bucket, Key="claims/a")
    [left] = await rig.payloads.unfinished(rig.bucket, "claims/", budget_s=5.0)
    await rig.payloads.abandon(rig.bucket, [left], budget_s=5.0)
    await rig.payloads.abandon(rig.bucket, [left], budget_s=5.0)
    assert nothing_is_left(rig)
