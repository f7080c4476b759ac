"""A Kafka for benchmarks whose Java has compiled what a load needs.

A batch of records costs a Java that has just started some 3.5 ms of CPU and 0.2 ms after 20 seconds under load. Here it
shares the cores with what is measured, and so would take most of them at first, from whoever is measured then. Its
compiler goes on after the load, on a core of its own for some ten seconds: that is waited for. The brokers that people
run have been up for longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import psutil

from benchmarks.cluster import Cluster
from benchmarks.subjects import to_stderr
from headrace.event_loop import run
from headrace.local_kafka import LocalKafka
from producer_sdk.broker import Broker, BrokerError, Committed, Misconfigured, Outgoing, TopicPartition
from producer_sdk.kafka import KafkaBroker

WARM_S = 25.0
TOPIC = "warm-up"
PUBLISHERS = 8  # each to a partition of its own, with one small batch out
RECORDS, NBYTES = 4, 1600
POLL_S = 0.1
QUIET, LOOK_S, LIMIT_S = 0.1, 2.0, 60.0  # of a core; an idle broker takes some 0.03
DELETED_S = 1.0  # a minute by default: some hundred megabytes would be written to disk while others are measured
SETTINGS = {"log.segment.delete.delay.ms": f"{DELETED_S * 1000:.0f}"}


@contextmanager
def warm_kafka(seconds: float = WARM_S) -> Iterator[LocalKafka]:
    """Kafka with a gigabyte and Java's server compiler, after so many seconds under a load of small batches."""
    with LocalKafka(benchmark=True, settings=SETTINGS) as kafka:
        to_stderr(f"Kafka warms up for {seconds:.0f} s")
        run(_warm_up(kafka.bootstrap_servers, seconds))
        settle(kafka)
        yield kafka


def settle(kafka: LocalKafka) -> None:
    """Wait until it has nothing left to compile: what is new to it, such as another client, begins that again."""
    java = psutil.Process(kafka.pid)
    ends_at = time.monotonic() + LIMIT_S
    while (cores := java.cpu_percent(LOOK_S) / 100) > QUIET:
        if time.monotonic() > ends_at:
            to_stderr(f"Kafka still uses {cores:.2f} of a core, {LIMIT_S:.0f} s after its last record")
            return


async def _warm_up(servers: str, seconds: float) -> None:
    brokers = _brokers(servers)
    async with Cluster(servers) as cluster:
        await cluster.create(TOPIC, PUBLISHERS)
        ends_at = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for number, broker in enumerate(brokers):
                own = range(number, PUBLISHERS, len(brokers))
                tasks.create_task(_publish(broker, own, ends_at))
                tasks.create_task(_consume(broker, f"{TOPIC}-{number}", ends_at))
        await cluster.delete(TOPIC)
        await asyncio.sleep(2 * DELETED_S)


def _brokers(servers: str) -> list[Broker]:
    """Either client, where it is installed: Kafka serves each by code of its own."""
    brokers: list[Broker] = [KafkaBroker(servers)]
    try:
        from producer_sdk.rdkafka import RdKafkaBroker
    except Misconfigured:
        return brokers
    brokers.append(RdKafkaBroker(servers))
    return brokers


async def _publish(broker: Broker, partitions: range, ends_at: float) -> None:
    producer = broker.producer()
    await producer.start()
    records = [Outgoing(b"key", bytes(NBYTES))] * RECORDS

    async def fill(partition: int) -> None:
        while time.monotonic() < ends_at:
            await producer.publish_batch(TOPIC, partition, records)

    try:
        async with asyncio.TaskGroup() as filling:
            for partition in partitions:
                filling.create_task(fill(partition))
    finally:
        await producer.stop()


class _Member:
    """Takes what it is given."""

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None: ...

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None: ...


async def _consume(broker: Broker, group: str, ends_at: float) -> None:
    """Read all, and commit after every poll."""
    member = broker.member(group, frozenset([TOPIC]), _Member())
    await member.start()
    try:
        while time.monotonic() < ends_at:
            if not (hauls := await member.poll(1000, POLL_S)):
                continue
            with suppress(BrokerError):  # nobody needs what is committed here
                await member.commit({partition: Committed(haul[-1].offset + 1) for partition, haul in hauls.items()})
    finally:
        await member.stop()
