"""What the worker knows of cancels: those sent before it lived too, for an hour, bounded, whatever the broker does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from fragile_broker import FragileBroker

from producer_sdk.broker import Outgoing
from producer_sdk.cancels import Cancel, cancel_record
from producer_sdk.memory import MemoryBroker
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Topics
from workers import cancels as module
from workers.cancels import Cancels

TOPICS = Topics()
NOW_MS = 1_700_000_000_000


def nothing() -> None:
    """For who does not want to be told."""


@pytest.fixture
async def broker() -> FragileBroker:
    broker = FragileBroker()
    await ensure_system_topics(broker.admin(), TOPICS)
    return broker


async def put(broker: MemoryBroker, *records: Outgoing) -> None:
    producer = broker.producer()
    await producer.start()
    await producer.publish_batch(TOPICS.cancels, 0, records)
    await producer.stop()


async def cancel(broker: MemoryBroker, *ids: str, at_ms: int = NOW_MS) -> None:
    await put(broker, *(cancel_record(Cancel(id, at_ms)) for id in ids))


@asynccontextmanager
async def reading(
    broker: MemoryBroker, told: Callable[[], None] = nothing, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Cancels]:
    """Cancels that have caught up, with an allowance of 100 ms."""
    cancels = Cancels(broker, TOPICS, 0.1, told, clock)
    task = asyncio.create_task(cancels.run())
    try:
        await asyncio.wait_for(cancels.caught_up.wait(), 10)
        yield cancels
        assert not task.done()
    finally:
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it does not hold after 10 s")


def known(cancels: Cancels, ids: Sequence[str], at_ms: int = NOW_MS) -> list[bool]:
    return [cancels.covers(id, at_ms) for id in ids]


async def test_a_cancel_sent_while_no_worker_lived_counts(broker: FragileBroker) -> None:
    await cancel(broker, "a", "b")
    async with reading(broker) as cancels:
        assert known(cancels, ["a", "b", "c"]) == [True, True, False]
        assert len(cancels) == 2


async def test_without_cancels_there_is_nothing_to_look_up(broker: FragileBroker) -> None:
    began = time.monotonic()
    async with reading(broker) as cancels:
        assert (len(cancels), cancels.covers("a", NOW_MS)) == (0, False)
    assert time.monotonic() - began < 10


async def test_a_cancel_ends_what_was_published_until_then_and_nothing_later(broker: FragileBroker) -> None:
    await cancel(broker, "a")
    async with reading(broker) as cancels:
        published = [NOW_MS - 3_600_000, NOW_MS, NOW_MS + 100, NOW_MS + 101]
        assert [cancels.covers("a", at_ms) for at_ms in published] == [True, True, True, False]
        assert cancels.covers("a", -1)  # no timestamp


async def test_the_later_of_two_cancels_of_an_id_counts_in_whatever_order(broker: FragileBroker) -> None:
    await cancel(broker, "a", at_ms=NOW_MS + 5000)
    await cancel(broker, "a", at_ms=NOW_MS)
    async with reading(broker) as cancels:
        assert cancels.covers("a", NOW_MS + 5000)


async def test_each_haul_that_brings_something_new_is_told(broker: FragileBroker) -> None:
    told: list[int] = []
    async with reading(broker, lambda: told.append(1)) as cancels:
        await cancel(broker, "a")
        await until(lambda: len(cancels) == 1)
        await cancel(broker, "a")  # nothing new
        await cancel(broker, "b")
        await until(lambda: len(cancels) == 2)
    assert len(told) == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"id": "a"}',
        b'{"id": "a b", "at_ms": 1}',
        b'{"id": "a", "at_ms": -1}',
        b'{"id": "a", "at_ms": "1"}',
        b'{"id": "a", "at_ms": 1, "x": ' + b"[" * 5000,
        b'{"id": "a", "at_ms": 1}}',
    ],
)
async def test_a_record_that_is_no_cancel_is_counted_and_passed_over(
    broker: FragileBroker, value: bytes | None
) -> None:
    await put(broker, Outgoing(b"a", value))
    await cancel(broker, "b")
    async with reading(broker) as cancels:
        assert (cancels.unreadable, known(cancels, ["a", "b"])) == (1, [False, True])


async def test_fields_of_later_releases_are_passed_over(broker: FragileBroker) -> None:
    await put(broker, Outgoing(b"a", b'{"why": {"who": "x"}, "at_ms": %d, "id": "a"}' % NOW_MS))
    async with reading(broker) as cancels:
        assert (cancels.unreadable, known(cancels, ["a"])) == (0, [True])


async def test_a_storm_of_cancels_keeps_the_newest_up_to_the_cap(
    broker: FragileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_IDS", 1000)
    ids = [f"id-{number}" for number in range(10_000)]
    await cancel(broker, *ids)
    async with reading(broker) as cancels:
        assert (len(cancels), cancels.crowded_out) == (1000, 9000)
        assert known(cancels, [ids[0], ids[8999], ids[9000], ids[-1]]) == [False, False, True, True]


async def test_a_cancel_that_comes_again_counts_as_new_when_the_oldest_leave(
    broker: FragileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_IDS", 2)
    await cancel(broker, "a", "b", "a", "c")
    async with reading(broker) as cancels:
        assert known(cancels, ["a", "b", "c"]) == [True, False, True]


async def test_cancels_leave_after_an_hour(broker: FragileBroker) -> None:
    now_s = 0.0
    await cancel(broker, "old")
    async with reading(broker, clock=lambda: now_s) as cancels:
        now_s = 1800.0
        await cancel(broker, "mid")
        await until(lambda: len(cancels) == 2)
        now_s = 3601.0
        await cancel(broker, "new")
        await until(lambda: cancels.covers("new", NOW_MS))
        assert known(cancels, ["old", "mid"]) == [False, True]


async def test_cancels_leave_after_an_hour_when_none_follow(
    broker: FragileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORGET_EVERY_S", 0.02)
    now_s = 0.0
    await cancel(broker, "old")
    async with reading(broker, clock=lambda: now_s) as cancels:
        now_s = 3601.0
        await until(lambda: len(cancels) == 0)


async def test_a_lost_reader_is_built_anew_and_nothing_is_missed(broker: FragileBroker) -> None:
    async with reading(broker) as cancels:
        broker.failing_polls, broker.failing_starts = 1, 3
        await cancel(broker, "a")
        await until(lambda: cancels.covers("a", NOW_MS))
        await cancel(broker, "b")
        await until(lambda: cancels.covers("b", NOW_MS))
    assert broker.failing_starts == 0


async def test_a_broker_that_answers_late_is_waited_for(broker: FragileBroker) -> None:
    await cancel(broker, "a")
    broker.failing_starts = 2
    async with reading(broker) as cancels:
        assert known(cancels, ["a"]) == [True]


async def test_a_topic_that_is_made_later_is_found() -> None:
    broker = MemoryBroker()
    asyncio.get_running_loop().call_later(
        0.3, lambda: asyncio.ensure_future(ensure_system_topics(broker.admin(), TOPICS))
    )
    async with reading(broker) as cancels:
        await cancel(broker, "a")
        await until(lambda: cancels.covers("a", NOW_MS))


async def test_a_broker_that_fails_holds_the_start_only_for_a_time(
    broker: FragileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLIND_AFTER_S", 0.3)
    broker.failing_starts = 4
    await cancel(broker, "a")
    began = time.monotonic()
    async with reading(broker) as cancels:
        assert 0.2 < time.monotonic() - began < 10
        assert len(cancels) == 0
        await until(lambda: cancels.covers("a", NOW_MS))


async def test_a_broker_that_fails_half_way_holds_the_start_only_for_a_time(
    broker: FragileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLIND_AFTER_S", 0.3)
    await cancel(broker, "a")
    broker.failing_polls = 1_000_000
    async with reading(broker) as cancels:
        assert len(cancels) == 0


async def test_a_broker_that_does_not_answer_at_all_holds_neither_start_nor_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BLIND_AFTER_S", 0.1)
    broker = MemoryBroker()
    broker.away()
    async with asyncio.timeout(2), reading(broker) as cancels:
        assert len(cancels) == 0
