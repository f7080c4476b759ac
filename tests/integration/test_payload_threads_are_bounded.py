"""However many payloads are asked for, so many requests run at once and no more, and reads leave room for writes."""

import asyncio

import pytest
from payload_rig import LARGE, SMALL, rigged
from s3 import Fault, S3Server
from worker_rig import until

from producer_sdk import _s3_clients


async def test_many_reads_share_few_threads(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rigged(s3, monkeypatch, threads=4) as rig:
        stored = [await rig.stored(size) for size in (SMALL, LARGE)]
        rig.proxy.most_at_once = 0
        read = await asyncio.gather(*(rig.read(ref) for ref, _ in stored * 6))
        assert read == [data for _, data in stored] * 6
        assert rig.proxy.most_at_once == 3


async def test_reads_that_hang_leave_room_for_writes(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rigged(s3, monkeypatch, threads=4) as rig:
        ref, _ = await rig.stored(SMALL, "slow")
        rig.proxy.inject(Fault(hangs=True), method="GET", times=None)
        reads = [asyncio.create_task(rig.read(ref)) for _ in range(20)]
        await until(lambda: rig.proxy.at_once == 3)
        await rig.stored(SMALL, "result")
        assert not any(read.done() for read in reads)
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


@pytest.mark.parametrize(("rank", "places"), [(2, 4), (1, 5)])
async def test_reads_of_a_lower_lane_that_hang_leave_room_for_those_above(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, rank: int, places: int
) -> None:
    async with rigged(s3, monkeypatch) as rig:
        slow, _ = await rig.stored(SMALL, "slow")
        good, data = await rig.stored(LARGE)
        monkeypatch.setattr(_s3_clients, "_READ_S", (30.0,))  # nobody gives up
        rig.proxy.inject(Fault(hangs=True), match="/slow", times=None)
        wanted = {"budget_s": 60.0, "max_bytes": 1 << 30, "rank": rank}
        reads = [asyncio.create_task(rig.payloads.get(slow, **wanted)) for _ in range(20)]
        await until(lambda: rig.proxy.at_once == places)
        assert await rig.read(good) == data
        assert not any(read.done() for read in reads)
        rig.proxy.heal()
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


async def test_a_cancelled_read_gives_its_thread_back(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rigged(s3, monkeypatch, threads=1) as rig:
        ref, data = await rig.stored(SMALL)
        rig.proxy.inject(Fault(bytes_per_s=100), method="GET")
        read = asyncio.create_task(rig.read(ref))
        await until(lambda: rig.proxy.trickled > 10)
        read.cancel()
        # Left alone, the thread would read on for twice as long.
        assert await rig.read(ref, budget_s=3.0) == data


async def test_a_large_read_does_not_take_all_threads(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rigged(s3, monkeypatch, threads=8) as rig:
        ref, data = await rig.stored(LARGE)
        rig.proxy.most_at_once = 0
        assert await rig.read(ref) == data
        assert rig.proxy.most_at_once <= 4
