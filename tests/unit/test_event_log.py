"""The event log tells what it is told, and costs the worker neither memory nor time when it cannot."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from producer_sdk.broker import BrokerError, Committed, Topic, TopicPartition
from producer_sdk.event_records import Event, decode_event
from producer_sdk.memory import MemoryBroker
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request
from workers import event_log
from workers.commit import PartitionLedger
from workers.event_log import EventLog
from workers.work import Source, Work

PLACE = TopicPartition("headrace.m.async", 3)
TOPIC = "headrace.events"


def work(offset: int, expires: float | None = None) -> Work:
    source = Source(PartitionLedger(PLACE), offset)
    record = None
    return Work(Request(f"id-{offset}", {}), source, record, Lane.ASYNC, 1, 0, (), 0.0, expires)  # type: ignore[arg-type]


@pytest.fixture
async def broker() -> MemoryBroker:
    broker = MemoryBroker()
    await broker.admin().create_topics([Topic(TOPIC, 1)])
    return broker


@pytest.fixture
async def log(broker: MemoryBroker) -> AsyncIterator[EventLog]:
    producer = broker.producer()
    await producer.start()
    yield EventLog(producer, TOPIC, "w", wall=lambda: 50.0, monotonic=lambda: 7.0)
    await producer.stop()


@pytest.fixture
async def published(broker: MemoryBroker) -> AsyncIterator[Callable[[], Awaitable[list[Event]]]]:
    reader = broker.reader(frozenset([TopicPartition(TOPIC, 0)]), from_end=False)
    await reader.start()

    async def read() -> list[Event]:
        records = (await reader.poll(10_000, 0.0)).values()
        return [event for each in records for record in each if (event := decode_event(record.value))]

    yield read
    await reader.stop()


async def test_what_was_started_and_committed_is_published(log: EventLog, published) -> None:  # type: ignore[no-untyped-def]
    log.started([work(4, expires=9.5), work(5)])
    log.committed({PLACE: Committed(4, "text")}, asked_ms=49_990)
    assert await log.flush(1.0)
    started, committed = await published()
    first, second = started.started
    assert (first.id, first.topic, first.partition, first.offset) == ("id-4", PLACE.topic, 3, 4)
    assert (first.deadline_ms, second.deadline_ms, started.at_ms) == (52_500, None, 50_000)
    assert [(each.offset, each.metadata) for each in committed.committed] == [(4, "text")]
    assert committed.at_ms == 49_990
    assert (started.number, committed.number, started.life) == (0, 1, committed.life)


async def test_it_publishes_while_it_runs(log: EventLog, published) -> None:  # type: ignore[no-untyped-def]
    running = asyncio.create_task(log.run())
    log.started([work(0)])
    await asyncio.sleep(event_log.LINGER_S * 3)
    assert len(await published()) == 1
    running.cancel()


async def test_no_event_holds_more_than_a_record_may(log: EventLog, published) -> None:  # type: ignore[no-untyped-def]
    log.started([work(n) for n in range(1000)])
    log.committed({TopicPartition("headrace.m.async", n): Committed(0, "x" * 4096) for n in range(200)}, asked_ms=1)
    assert await log.flush(1.0)
    events = await published()
    assert sum(len(event.started) for event in events) == 1000
    assert sum(len(event.committed) for event in events) == 200
    assert log.dropped == 0


async def test_beyond_its_bound_it_leaves_events_out_and_the_numbers_tell(
    log: EventLog,
    published,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setattr(event_log, "MAX_WAITING", 3)
    for n in range(5):
        log.started([work(n)])
    assert await log.flush(1.0)
    log.started([work(5)])
    assert await log.flush(1.0)
    assert [event.number for event in await published()] == [0, 1, 2, 5]
    assert log.dropped == 2


async def test_a_broker_that_does_not_answer_costs_no_event(broker: MemoryBroker, log: EventLog, published) -> None:  # type: ignore[no-untyped-def]
    broker.fail_publish(TOPIC, BrokerError("no answer"), arrives=True)
    log.started([work(0)])
    assert not await log.flush(0.05)
    broker.fail_publish(TOPIC, None)
    assert await log.flush(1.0)
    numbers = [event.number for event in await published()]
    assert set(numbers) == {0}
    assert len(numbers) > 1


@pytest.mark.parametrize("events", [True, False])
async def test_the_topic_is_made_only_where_events_are_told(events: bool) -> None:
    broker = MemoryBroker()
    await ensure_system_topics(broker.admin(), Topics(), events=events)
    assert (TOPIC in await broker.admin().topics()) is events
