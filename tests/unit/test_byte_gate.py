"""How many bytes are on their way at a time."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.byte_gate import ByteGate


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_never_more_is_inside_than_fits_and_everybody_gets_in() -> None:
    gate, most, done = ByteGate(10), 0, []

    async def pass_through(name: int, nbytes: int) -> None:
        nonlocal most
        async with gate.room_for(nbytes, rank=0):
            most = max(most, gate.inside)
            await asyncio.sleep(0)
        done.append(name)

    await asyncio.gather(*(pass_through(name, nbytes) for name, nbytes in enumerate([3, 9, 10, 1, 6, 0, 10, 4])))
    assert most <= 10
    assert sorted(done) == list(range(8))
    assert gate.inside == 0


async def test_the_lowest_rank_goes_first_and_a_large_one_is_not_passed_for_ever() -> None:
    gate, order = ByteGate(10), []

    async def pass_through(name: str, nbytes: int, rank: int) -> None:
        async with gate.room_for(nbytes, rank):
            order.append(name)

    async with gate.room_for(10, 0):
        names = [("bulk", 1, 2), ("large", 10, 0), ("small", 1, 0)]
        tasks = [asyncio.create_task(pass_through(*each)) for each in names]
        await _settled()
        assert order == []
    await asyncio.gather(*tasks)
    assert order == ["large", "small", "bulk"]


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 2), st.booleans()), max_size=30))
def test_who_is_cancelled_leaves_its_room_to_others(passers: list[tuple[int, int, bool]]) -> None:
    async def play() -> None:
        gate = ByteGate(10)

        async def pass_through(nbytes: int, rank: int) -> None:
            async with gate.room_for(nbytes, rank):
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(pass_through(nbytes, rank)) for nbytes, rank, _ in passers]
        await asyncio.sleep(0)
        for task, (_, _, cancelled) in zip(tasks, passers, strict=True):
            if cancelled:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        stayed = [result for result, (_, _, cancelled) in zip(results, passers, strict=True) if not cancelled]
        assert stayed == [None] * len(stayed)
        assert gate.inside == 0

    asyncio.run(play())


async def test_what_is_larger_than_all_the_room_goes_in_alone() -> None:
    gate, order = ByteGate(10), []

    async def pass_through(nbytes: int) -> None:
        async with gate.room_for(nbytes):
            order.append((nbytes, gate.inside))
            await asyncio.sleep(0)

    await asyncio.gather(pass_through(2), pass_through(30), pass_through(3))
    assert order == [(2, 2), (30, 10), (3, 3)]
    assert gate.inside == 0


async def test_who_keeps_room_for_lower_ranks_leaves_it_and_goes_in_alone_where_it_must() -> None:
    gate, inside = ByteGate(10), []

    async def hold(name: str, nbytes: int, rank: int, keep: int) -> None:
        async with gate.room_for(nbytes, rank, keep):
            inside.append(name)
            await asyncio.Event().wait()

    def start(name: str, nbytes: int, rank: int, keep: int) -> asyncio.Task[None]:
        return asyncio.create_task(hold(name, nbytes, rank, keep))

    tasks = [start(f"bulk {n}", 3, 2, 4) for n in range(3)]
    await _settled()
    assert inside == ["bulk 0", "bulk 1"]
    tasks.append(start("first", 4, 0, 0))
    await _settled()
    assert inside == ["bulk 0", "bulk 1", "first"]
    for task in (*tasks[:2], tasks[3]):
        task.cancel()
    await _settled()
    assert inside[3:] == ["bulk 2"]
    tasks[2].cancel()
    tasks.append(start("too large to keep any", 9, 2, 4))
    await _settled()
    assert inside[4:] == ["too large to keep any"]
    tasks[4].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gate.inside == 0
