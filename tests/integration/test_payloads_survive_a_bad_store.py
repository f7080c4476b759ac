"""Whatever the store does, a payload comes whole or a typed error comes within the budget; and so it goes there."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from payload_rig import LARGE, PATIENT_S, SMALL, Rig, rigged
from s3 import Fault, S3Server

from producer_sdk.payloads import PayloadUnavailable


def garbled(body: bytes) -> bytes:
    return bytes([body[0] ^ 1]) + body[1:]


FAULTS = {
    "503": Fault(status=503),
    "500": Fault(status=500, code="InternalError"),
    "throttled": Fault(status=429, code="TooManyRequests"),
    "timed-out": Fault(status=400, code="RequestTimeout"),
    "hangs": Fault(hangs=True),
    "resets": Fault(loses_answer=True),
}
IN_BODIES = {
    "cut": Fault(cut_at=500),
    "empty": Fault(cut_at=0),
    "slow": Fault(bytes_per_s=300),
    "garbled": Fault(change=garbled),
}


@pytest.fixture
async def rig(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with rigged(s3, monkeypatch) as rig:
        yield rig


@pytest.mark.parametrize("fault", FAULTS | IN_BODIES)
async def test_a_read_outlives_a_fault_that_passes(rig: Rig, fault: str) -> None:
    ref, data = await rig.stored(SMALL)
    rig.proxy.inject((FAULTS | IN_BODIES)[fault], method="GET")
    assert await rig.read(ref, budget_s=2.0) == data


@pytest.mark.parametrize("fault", ["503", "cut", "garbled"])
async def test_each_part_of_a_large_object_is_read_again_by_itself(rig: Rig, fault: str) -> None:
    ref, data = await rig.stored(LARGE)
    rig.proxy.inject((FAULTS | IN_BODIES)[fault], method="GET", times=3)
    assert await rig.read(ref) == data


@pytest.mark.parametrize(("size", "fault"), [*((SMALL, each) for each in FAULTS), (LARGE, "503"), (LARGE, "resets")])
async def test_a_write_outlives_a_fault_that_passes(rig: Rig, size: int, fault: str) -> None:
    rig.proxy.inject(FAULTS[fault], method="PUT")
    ref, data = await rig.stored(size, "a")
    assert rig.s3.data(rig.bucket, "a") == data
    assert ref.nbytes == size


@pytest.mark.parametrize("fault", ["503", "hangs", "cut"])
async def test_a_fault_that_stays_is_a_typed_error_within_the_budget(rig: Rig, fault: str) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.proxy.inject((FAULTS | IN_BODIES)[fault], times=None)
    async with asyncio.timeout(PATIENT_S):
        with pytest.raises(PayloadUnavailable, match=rf"Could not get {ref.uri} within 0.4 s, tried (once|\d+ times)"):
            await rig.read(ref, budget_s=0.4)


async def test_a_body_that_trickles_does_not_outlast_the_budget(rig: Rig) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.proxy.inject(Fault(bytes_per_s=50), times=None)
    async with asyncio.timeout(PATIENT_S):
        with pytest.raises(PayloadUnavailable):
            await rig.read(ref, budget_s=0.4)


async def test_a_store_that_is_gone_for_a_while_is_waited_for(rig: Rig) -> None:
    ref, data = await rig.stored(LARGE)
    rig.proxy.gone = True
    reading = asyncio.create_task(rig.read(ref))
    writing = asyncio.create_task(rig.stored(SMALL, "late"))
    done, _ = await asyncio.wait([reading, writing], timeout=0.3)
    assert not done
    rig.proxy.gone = False
    assert await reading == data
    _, late = await writing
    assert rig.s3.data(rig.bucket, "late") == late


async def test_a_missing_neighbour_and_a_slow_one_hold_up_nobody(rig: Rig) -> None:
    slow, _ = await rig.stored(SMALL, "slow")
    good, data = await rig.stored(SMALL)
    rig.proxy.inject(Fault(hangs=True), match="/slow", times=None)
    waiting = asyncio.create_task(rig.read(slow))
    assert await rig.read(good) == data
    assert not waiting.done()
    waiting.cancel()
