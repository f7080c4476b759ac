"""Apache Kafka keeps in mind what a consumer on aiokafka asks for; where it does not, nothing is missed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker_clients import Clients, read

from headrace.local_kafka import LocalKafka
from producer_sdk._kafka_fetch_session import WHOLE, Fetch, FetchSession
from producer_sdk.broker import Consumer, Outgoing, TopicPartition
from producer_sdk.kafka import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture
async def aiokafka(kafka_broker: KafkaBroker, prefix: str) -> AsyncIterator[Clients]:
    async with Clients(kafka_broker, prefix) as clients:
        yield clients


def session_of(reader: Consumer) -> FetchSession:
    (session,) = reader._consumer._fetcher.fetch_sessions.values()  # type: ignore[attr-defined]
    assert isinstance(session, FetchSession)
    return session


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[Fetch]:
    """What consumers ask for from now on."""
    asked: list[Fetch] = []
    ask = FetchSession.ask

    def asking(session: FetchSession, topics: Any) -> Fetch:
        asked.append(fetch := ask(session, topics))
        return fetch

    monkeypatch.setattr(FetchSession, "ask", asking)
    return asked


async def values(clients: Clients, reader: Consumer, topic: str, partition: int, value: bytes) -> list[bytes | None]:
    """What the reader gets once the value is published."""
    await (await clients.producer()).publish_batch(topic, partition, [Outgoing(None, value)])
    return [record.value for record in await read(reader, 1)]


async def test_only_the_first_fetch_names_all_partitions(aiokafka: Clients, fetches: list[Fetch]) -> None:
    topic = await aiokafka.topic(8)
    reader = await aiokafka.reader(topic, *range(8))
    for number in range(6):
        assert await values(aiokafka, reader, topic, number, b"%d" % number) == [b"%d" % number]
    first, *others = fetches
    assert first.epoch == WHOLE
    assert [len(partitions) for _, partitions in first.topics] == [8]
    assert all(fetch.epoch != WHOLE for fetch in others)
    # The one that gave a record, and under load the one before it, left out until its record was taken.
    assert max(len(partitions) for fetch in others for _, partitions in fetch.topics) <= 2


@pytest.mark.parametrize("spoilt", [{"_epoch": 77}, {"_id": 123_456_789}])
async def test_a_session_that_the_broker_does_not_know_costs_a_fetch_and_no_record(
    spoilt: dict[str, int], aiokafka: Clients, fetches: list[Fetch]
) -> None:
    topic = await aiokafka.topic(2)
    reader = await aiokafka.reader(topic, 0, 1)
    assert await values(aiokafka, reader, topic, 0, b"before") == [b"before"]
    fetches.clear()
    for name, value in spoilt.items():
        setattr(session_of(reader), name, value)
    for number in range(4):
        assert await values(aiokafka, reader, topic, number % 2, b"%d" % number) == [b"%d" % number]
    assert WHOLE in [fetch.epoch for fetch in fetches]


async def test_a_partition_left_out_for_a_while_is_read_on_where_it_was(aiokafka: Clients) -> None:
    topic = await aiokafka.topic(2)
    reader, second = await aiokafka.reader(topic, 0, 1), frozenset([TopicPartition(topic, 1)])
    for number in range(5):
        reader.pause(second)
        await (await aiokafka.producer()).publish_batch(topic, 1, [Outgoing(None, b"later %d" % number)])
        assert await values(aiokafka, reader, topic, 0, b"now %d" % number) == [b"now %d" % number]
        reader.resume(second)
        assert [record.value for record in await read(reader, 1)] == [b"later %d" % number]


async def test_a_seek_is_heeded_though_nothing_else_is_new(aiokafka: Clients) -> None:
    topic = await aiokafka.topic()
    reader = await aiokafka.reader(topic)
    assert await values(aiokafka, reader, topic, 0, b"once") == [b"once"]
    assert not await reader.poll(10, 0.2)
    reader.seek(TopicPartition(topic, 0), 0)
    assert [record.value for record in await read(reader, 1)] == [b"once"]


async def test_a_broker_that_keeps_no_sessions_is_read_all_the_same(prefix: str, fetches: list[Fetch]) -> None:
    settings = {"max.incremental.fetch.session.cache.slots": "0"}
    with LocalKafka(settings=settings) as kafka:
        async with Clients(KafkaBroker(kafka.bootstrap_servers), prefix) as clients:
            topic = await clients.topic(2)
            reader = await clients.reader(topic, 0, 1)
            for number in range(4):
                assert await values(clients, reader, topic, number % 2, b"%d" % number) == [b"%d" % number]
    assert {fetch.epoch for fetch in fetches} == {WHOLE}
