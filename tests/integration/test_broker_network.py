"""A bad network between clients and Kafka costs time and bounded errors, and neither loses nor repeats a record."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress

import pytest
from broker_clients import Clients, Owner, read
from tcp_proxy import TcpProxy, proxy_in_thread

from headrace.local_kafka import LocalKafka
from producer_sdk.broker import BrokerError, Committed, Consumer, Outgoing, Placed, Producer, TopicPartition
from producer_sdk.kafka import KafkaBroker, KafkaOptions
from producer_sdk.rdkafka import RdKafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

KafkaClient = type[KafkaBroker] | type[RdKafkaBroker]
OUTAGE_S = 2.0
RECORDS = 150
# A request without an answer is sent again before the outage ends, so that the first may arrive twice.
PATIENT = KafkaOptions(send_timeout_s=15.0, commit_timeout_s=1.0, request_timeout_s=0.8)
IMPATIENT = KafkaOptions(send_timeout_s=1.0, commit_timeout_s=1.0, request_timeout_s=0.8)


@pytest.fixture(scope="module")
def network() -> Iterator[TcpProxy]:
    with proxy_in_thread() as proxy, LocalKafka(advertised_port=proxy.port) as kafka:
        proxy.target_port = kafka.proxied_port
        yield proxy


@pytest.fixture
def proxy(network: TcpProxy) -> Iterator[TcpProxy]:
    network.heal()
    yield network
    network.heal()


@pytest.fixture
async def patient(proxy: TcpProxy, prefix: str, kafka_client: KafkaClient) -> AsyncIterator[Clients]:
    async with Clients(kafka_client(f"127.0.0.1:{proxy.port}", options=PATIENT), prefix) as clients:
        yield clients


@pytest.fixture
async def impatient(proxy: TcpProxy, prefix: str, kafka_client: KafkaClient) -> AsyncIterator[Clients]:
    async with Clients(kafka_client(f"127.0.0.1:{proxy.port}", options=IMPATIENT), prefix) as clients:
        yield clients


async def publish(producer: Producer, topic: str) -> list[Placed]:
    """Over about four seconds, each without waiting for the one before."""
    acknowledgements = []
    for number in range(RECORDS):
        acknowledgements.append(await producer.publish(topic, Outgoing(None, b"%d" % number), 0))
        await asyncio.sleep(4.0 / RECORDS)
    return [await acknowledgement for acknowledgement in acknowledgements]


async def outage(proxy: TcpProxy, kind: str) -> None:
    await asyncio.sleep(1.0)
    if kind == "reset":
        proxy.reset()
    else:
        proxy.black_hole(up=kind != "answers lost", down=kind != "requests lost")
    await asyncio.sleep(OUTAGE_S)
    proxy.heal()


async def fails(limit_s: float, wait: Awaitable[object]) -> bool:
    """Whether it ends with a BrokerError; in time it must end."""
    failed, started = True, time.monotonic()
    with suppress(BrokerError):
        await wait
        failed = False
    assert time.monotonic() - started < limit_s
    return failed


async def commit_again_and_again(member: Consumer, own: TopicPartition) -> list[bool]:
    """Which commits failed."""
    failed, ends_at = [], time.monotonic() + OUTAGE_S + 1.5
    while time.monotonic() < ends_at:
        failed.append(await fails(PATIENT.commit_timeout_s + 0.5, member.commit({own: Committed(0)})))
        await asyncio.sleep(0.2)
    return failed


@pytest.mark.parametrize("kind", ["black hole", "answers lost", "requests lost", "reset"])
async def test_each_record_is_there_once_and_read_once(proxy: TcpProxy, patient: Clients, kind: str) -> None:
    topic, producer, owner = await patient.topic(), await patient.producer(), Owner()
    member, own = await patient.member(topic, owner), TopicPartition(topic, 0)
    await owner.until_it_owns(1)
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(publish(producer, topic))
        reading = group.create_task(read(member, RECORDS))
        committing = group.create_task(commit_again_and_again(member, own))
        group.create_task(outage(proxy, kind))
    assert [placed.offset for placed in publishing.result()] == list(range(RECORDS))
    assert [record.value for record in reading.result()] == [b"%d" % number for number in range(RECORDS)]
    assert await (await patient.admin()).bounds([own]) == {own: (0, RECORDS)}
    assert set(committing.result()) == {True, False}
    await member.commit({own: Committed(RECORDS)})


async def test_errors_come_in_time_and_afterwards_all_is_well(proxy: TcpProxy, impatient: Clients) -> None:
    topic, producer, owner, admin = (
        await impatient.topic(), await impatient.producer(), Owner(), await impatient.admin(),
    )  # fmt: skip
    member, own = await impatient.member(topic, owner), TopicPartition(topic, 0)
    await owner.until_it_owns(1)
    proxy.black_hole()
    waits = [
        producer.publish_batch(topic, 0, [Outgoing(None, b"unknown")]), member.commit({own: Committed(0)}),
        member.end_offsets(frozenset([own])), admin.topics(), admin.bounds([own]), admin.committed(impatient.group),
        impatient.producer(), impatient.reader(topic),
    ]  # fmt: skip
    assert all(await asyncio.gather(*(fails(4.0, wait) for wait in waits)))
    assert not await member.poll(1, 0.1)
    proxy.heal()
    sent, offset = [b"unknown"], None
    while offset is None:
        sent.append(b"%d" % len(sent))
        with suppress(BrokerError):  # on a slow machine connecting anew may take longer than this client waits
            offset = await producer.publish_batch(topic, 0, [Outgoing(None, sent[-1])])
    values = [record.value for record in await read(member, offset + 1)]
    assert values[-1] == sent[-1]
    assert values == [value for value in sent if value in values]
    await member.commit({own: Committed(offset + 1)})


async def test_a_slow_network_is_only_slow(proxy: TcpProxy, patient: Clients) -> None:
    topic, producer, owner = await patient.topic(), await patient.producer(), Owner()
    member = await patient.member(topic, owner)
    await owner.until_it_owns(1)
    proxy.delay(0.05, jitter_s=0.05)
    started = time.monotonic()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x")])
    assert 0.1 <= time.monotonic() - started < 5.0
    assert len(await read(member, 1)) == 1
