"""What Kafka's clients leave open: every wait has an end, a stale member is refused, and what ended says so."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.protocol.group import LeaveGroupRequest
from broker_clients import Clients, Owner, read

from headrace.local_kafka import LocalKafka
from producer_sdk._kafka_member import KafkaMember
from producer_sdk.broker import BrokerError, CommitRefused, Committed, GroupOptions, Outgoing, TopicPartition
from producer_sdk.kafka import KafkaBroker, KafkaOptions
from producer_sdk.rdkafka import RdKafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

KafkaClient = type[KafkaBroker] | type[RdKafkaBroker]
IMPATIENT = KafkaOptions(send_timeout_s=1.5, commit_timeout_s=1.0, request_timeout_s=1.0)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def own_kafka(data_dir: Path) -> Iterator[LocalKafka]:
    """A broker that may be frozen and killed."""
    with LocalKafka(data_dir=data_dir) as kafka:
        yield kafka


@contextmanager
def frozen(kafka: LocalKafka) -> Iterator[None]:
    """The broker answers nothing; it goes on afterwards. Fails if the block takes much longer than clients may wait."""
    kafka.pause()
    started = time.monotonic()
    try:
        yield
    finally:
        kafka.resume()
    assert time.monotonic() - started < 10.0


@pytest.fixture
async def impatient(own_kafka: LocalKafka, prefix: str, kafka_client: KafkaClient) -> AsyncIterator[Clients]:
    """Clients that give up after about a second, of a broker that has come to itself after it was frozen."""
    async with Clients(kafka_client(own_kafka.bootstrap_servers), f"{prefix}.patient") as patient:
        await _until_it_makes_topics(patient)
    async with Clients(kafka_client(own_kafka.bootstrap_servers, options=IMPATIENT), prefix) as clients:
        yield clients


async def _until_it_makes_topics(patient: Clients) -> None:
    """On a slow machine a broker that was frozen may not answer for longer than even a patient client waits."""
    async with asyncio.timeout(90.0):
        while True:
            with suppress(BrokerError):
                await patient.topic()
                return


async def test_what_is_not_acknowledged_in_time_is_unknown_and_the_next_is_sent_anew(
    own_kafka: LocalKafka, impatient: Clients
) -> None:
    topic, producer = await impatient.topic(), await impatient.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"before")])
    with frozen(own_kafka):
        acknowledgement = await producer.publish(topic, Outgoing(None, b"unknown"), 0)
        batch = asyncio.create_task(producer.publish_batch(topic, 0, [Outgoing(None, b"unknown")]))
        with pytest.raises(BrokerError, match="may have arrived"):
            await acknowledgement
        with pytest.raises(BrokerError, match="may have arrived"):
            await batch
    await producer.publish_batch(topic, 0, [Outgoing(None, b"after")])
    seen = {record.value for record in await read(await impatient.reader(topic), 2)}
    assert b"before" in seen
    assert seen <= {b"before", b"unknown", b"after"}


async def test_clients_of_a_frozen_broker_stop_in_time(own_kafka: LocalKafka, impatient: Clients) -> None:
    topic, producer, owner = await impatient.topic(), await impatient.producer(), Owner()
    member = await impatient.member(topic, owner)
    await owner.until_it_owns(1)
    with frozen(own_kafka):
        acknowledgement = await producer.publish(topic, Outgoing(None, b"x"))
        await asyncio.gather(producer.stop(0.5), member.stop(0.5))
        with pytest.raises(BrokerError, match="may have arrived"):
            await acknowledgement


async def test_a_commit_and_a_start_without_an_answer_end_in_time(own_kafka: LocalKafka, impatient: Clients) -> None:
    topic, owner = await impatient.topic(), Owner()
    member = await impatient.member(topic, owner)
    own = await owner.until_it_owns(1)
    with frozen(own_kafka):
        with pytest.raises(BrokerError, match="did not answer a commit within 1 s"):
            await member.commit({partition: Committed(0) for partition in own})
        with pytest.raises(BrokerError, match="no connection"):
            await impatient.broker.producer().start()
        with pytest.raises(BrokerError, match="no connection"):
            await impatient.reader(topic)


async def test_a_restart_of_the_broker_loses_and_repeats_nothing(
    own_kafka: LocalKafka, prefix: str, kafka_client: KafkaClient
) -> None:
    async with Clients(kafka_client(own_kafka.bootstrap_servers), prefix) as clients:
        topic, producer, owner = await clients.topic(), await clients.producer(), Owner()
        member = await clients.member(topic, owner)
        await owner.until_it_owns(1)
        acknowledgements = []
        for number in range(200):
            if number == 100:
                own_kafka.kill()
                restart = asyncio.create_task(asyncio.to_thread(own_kafka.start))
            acknowledgements.append(await producer.publish(topic, Outgoing(None, b"%d" % number), 0))
        await restart
        offsets = [(await acknowledgement).offset for acknowledgement in acknowledgements]
        assert offsets == list(range(200))
        assert [record.value for record in await read(member, 200)] == [b"%d" % number for number in range(200)]


async def test_a_member_that_was_put_out_is_refused_and_joins_anew(own_kafka: LocalKafka, prefix: str) -> None:
    async with Clients(KafkaBroker(own_kafka.bootstrap_servers), prefix) as clients:
        topic, admin, owner = await clients.topic(), await clients.admin(), Owner()
        member, own = await clients.member(topic, owner), TopicPartition(topic, 0)
        await owner.until_it_owns(1)
        assert isinstance(member, KafkaMember)
        refusals: list[type[Exception]] = []
        owner.on_revoked = lambda: _try_to_commit(member, own, refusals)
        coordinator = member._consumer._coordinator
        await coordinator._send_req(LeaveGroupRequest(clients.group, coordinator.member_id))
        with pytest.raises(CommitRefused, match="no longer knows this member"):
            await member.commit({own: Committed(3)})
        await owner.until(lambda: len(owner.told) == 3)
        assert [what for _, what, _ in owner.told] == ["assigned", "revoked", "assigned"]
        assert refusals == [CommitRefused]
        assert await admin.committed(clients.group) == {}
        await member.commit({own: Committed(4)})


async def _try_to_commit(member: KafkaMember, own: TopicPartition, refusals: list[type[Exception]]) -> None:
    try:
        await member.commit({own: Committed(2)})
    except BrokerError as err:
        refusals.append(type(err))


async def test_a_drain_longer_than_a_request_keeps_everybody_in_the_group(impatient: Clients) -> None:
    topic, first, second = await impatient.topic(2), Owner(), Owner()
    patient = GroupOptions(session_timeout_s=6.0, heartbeat_interval_s=0.2, rebalance_timeout_s=20.0)
    await impatient.member(topic, first, patient)
    await first.until_it_owns(2)
    first.on_revoked = lambda: asyncio.sleep(3.0)
    await impatient.member(topic, second, patient)
    assert len(await second.until_it_owns(1)) == len(await first.until_it_owns(1)) == 1


async def test_polls_end_in_time_while_others_drain(impatient: Clients) -> None:
    topic, producer, first, second = await impatient.topic(2), await impatient.producer(), Owner(), Owner()
    await impatient.member(topic, first)
    await first.until_it_owns(2)
    first.on_revoked = lambda: asyncio.sleep(3.0)
    member = await impatient.member(topic, second)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x")])
    started = time.monotonic()
    assert not await member.poll(10, 0.2)
    assert time.monotonic() - started < 2.0
    await second.until_it_owns(1)


def spoil(data_dir: Path, topic: str) -> None:
    (segment,) = data_dir.rglob(f"{topic}-0/*.log")
    segment.write_bytes(segment.read_bytes().replace(b"spoilt", b"SPOILT"))


async def test_a_corrupt_record_is_named_by_its_place(data_dir: Path, impatient: Clients) -> None:
    topic, producer = await impatient.topic(), await impatient.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"good")])
    await producer.publish_batch(topic, 0, [Outgoing(None, b"spoilt")])
    spoil(data_dir, topic)
    reader = await impatient.reader(topic)
    with pytest.raises(BrokerError, match=rf"topic '{topic}' partition 0 from offset 1"):
        await read(reader, 2)


@pytest.mark.parametrize("task", ["_coordinator._coordination_task", "_fetcher._fetch_task", "_client._sync_task"])
async def test_a_dead_task_of_aiokafka_ends_the_consumer(own_kafka: LocalKafka, prefix: str, task: str) -> None:
    async with Clients(KafkaBroker(own_kafka.bootstrap_servers), prefix) as clients:
        topic, owner = await clients.topic(), Owner()
        member = await clients.member(topic, owner)
        await owner.until_it_owns(1)
        assert isinstance(member, KafkaMember)
        part, _, name = task.partition(".")
        getattr(getattr(member._consumer, part), name).cancel()
        await asyncio.sleep(0)
        with pytest.raises(BrokerError, match="cannot go on"):
            await read(member, 1)
