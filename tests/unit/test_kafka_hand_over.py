"""Who waits for records goes on before it is worked out what to fetch next; that is then done once."""

import asyncio
from typing import Any

import pytest

from producer_sdk._kafka_hand_over import TURNS, hand_over_first, note_room


class Fetcher:
    """What `hand_over_first` uses of aiokafka's. `tells_new`: whether an answer holds records."""

    def __init__(self, *, tells_new: bool = True) -> None:
        self._fetch_waiters: set[asyncio.Future[None]] = set()
        self._wait_consume_future = asyncio.get_running_loop().create_future()
        self._tells_new = tells_new
        hand_over_first(self)

    async def _proc_fetch_request(self, assignment: object, node_id: int, request: object) -> bool:
        return self._tells_new

    def _notify(self, future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)


def waiting(fetcher: Any) -> asyncio.Future[None]:
    waiter = asyncio.get_running_loop().create_future()
    fetcher._fetch_waiters.add(waiter)
    waiter.add_done_callback(fetcher._fetch_waiters.remove)
    return waiter


async def processed(fetcher: Any, told: list[str]) -> bool:
    any_new: bool = await fetcher._proc_fetch_request(None, 0, None)
    told.append("fetch")
    return any_new


async def test_who_waits_goes_on_for_some_turns_before_the_next_fetch() -> None:
    fetcher, told = Fetcher(), list[str]()

    async def owner(waiter: asyncio.Future[None]) -> None:
        await waiter
        for turn in range(TURNS - 1):
            told.append(f"turn {turn}")
            await asyncio.sleep(0)

    owning = asyncio.create_task(owner(waiting(fetcher)))
    await asyncio.sleep(0)
    assert await processed(fetcher, told)
    await owning
    assert told == [*(f"turn {turn}" for turn in range(TURNS - 1)), "fetch"]


async def test_what_is_taken_meanwhile_asks_for_no_fetch_of_its_own() -> None:
    fetcher = Fetcher()
    waiter = waiting(fetcher)
    processing = asyncio.create_task(processed(fetcher, []))
    await waiter
    note_room(fetcher)
    assert not fetcher._wait_consume_future.done()
    await processing
    note_room(fetcher)
    assert fetcher._wait_consume_future.done()


@pytest.mark.parametrize(("tells_new", "waits"), [(True, False), (False, True), (False, False)])
async def test_without_records_or_somebody_who_waits_the_fetch_is_at_once(tells_new: bool, waits: bool) -> None:
    fetcher, told = Fetcher(tells_new=tells_new), list[str]()
    waiter = waiting(fetcher) if waits else None
    processing = asyncio.create_task(processed(fetcher, told))
    await asyncio.sleep(0)
    assert told == ["fetch"]
    assert await processing is tells_new
    assert waiter is None or not waiter.done()


async def test_one_that_is_ended_meanwhile_ends_quietly_and_room_is_noted_again() -> None:
    fetcher = Fetcher()
    waiter = waiting(fetcher)
    processing = asyncio.create_task(processed(fetcher, []))
    await waiter
    processing.cancel()
    assert await processing
    note_room(fetcher)
    assert fetcher._wait_consume_future.done()


@pytest.mark.parametrize("tells_new", [True, False])
async def test_the_next_fetch_is_worked_out_once_aiokafka_knows_that_none_is_under_way(tells_new: bool) -> None:
    """Else it would stand still for 0.2 s when a partition was resumed just before: seen beside a bulk lane."""
    fetcher, under_way = Fetcher(tells_new=tells_new), [0]
    processing = asyncio.create_task(fetcher._proc_fetch_request(None, 0, None))
    processing.add_done_callback(lambda _: under_way.remove(0))
    fetcher._wait_consume_future.add_done_callback(lambda _: under_way.append(len(under_way)))
    await processing
    await asyncio.sleep(0)
    assert fetcher._wait_consume_future.done()
    await asyncio.sleep(0)
    assert under_way == [0]  # told while none was
