"""A bell is heard by the one task that listens to it, in time or not at all."""

import asyncio

from workers.events import Bell


async def test_what_rang_before_is_heard_at_once_until_it_is_cleared() -> None:
    bell = Bell()
    bell.set()
    assert [await bell.heard(), await bell.heard(0.0), bell.is_set()] == [True, True, True]
    bell.clear()
    assert not await bell.heard(0.0)


async def test_it_is_heard_while_somebody_listens_with_and_without_a_limit() -> None:
    bell, loop = Bell(), asyncio.get_running_loop()
    for limit in ({}, {"timeout_s": 60.0}):
        loop.call_soon(bell.set)
        assert await bell.heard(**limit)
        bell.clear()


async def test_a_limit_ends_the_listening_and_a_later_ring_is_kept_for_the_next() -> None:
    bell = Bell()
    assert not await bell.heard(0.001)
    bell.set()
    assert await bell.heard(0.001)


async def test_who_is_cancelled_leaves_no_timer_that_ends_the_next_one() -> None:
    bell, loop = Bell(), asyncio.get_running_loop()
    listening = asyncio.create_task(bell.heard(0.01))
    await asyncio.sleep(0)
    listening.cancel()
    await asyncio.wait([listening])
    loop.call_later(0.03, bell.set)
    assert await bell.heard(60.0)


async def test_ringing_twice_in_one_turn_of_the_loop_is_one_ring() -> None:
    bell, loop = Bell(), asyncio.get_running_loop()
    loop.call_soon(bell.set)
    loop.call_soon(bell.set)
    assert await bell.heard()
