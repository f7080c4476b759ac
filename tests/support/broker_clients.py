"""Clients of a broker that stop at the end of a test, and an owner of partitions that writes down what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from producer_sdk.broker import (
    Admin,
    Broker,
    Committed,
    Consumer,
    GroupOptions,
    Producer,
    Record,
    Topic,
    TopicPartition,
)
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import RdKafkaBroker
from producer_sdk.testing import MemoryBroker

LIMIT_S = 15.0
QUICK = GroupOptions(session_timeout_s=10.0, heartbeat_interval_s=0.2, rebalance_timeout_s=10.0)
Partitions = frozenset[TopicPartition]


class Owner:
    """`told` holds what happened in order; `on_revoked` is awaited before the revocation is written down.

    `owns` is None before the first assignment, and after the last partition was given up until the next.
    """

    def __init__(self, name: str = "", told: list[tuple[str, str, Partitions]] | None = None) -> None:
        self.name = name
        self.told = [] if told is None else told
        self.owns: Partitions | None = None
        self.starts: Mapping[TopicPartition, Committed] = {}  # of the last assignment
        self.on_revoked: Callable[[], Awaitable[None]] | None = None
        self._changed = asyncio.Event()

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None:
        self.starts = dict(starts)
        self.owns = (self.owns or frozenset()) | starts.keys()
        self._tell("assigned", frozenset(starts))

    async def revoked(self, partitions: Partitions) -> None:
        if self.on_revoked is not None:
            await self.on_revoked()
        self.owns = ((self.owns or frozenset()) - partitions) or None
        self._tell("revoked", partitions)

    async def until_it_owns(self, count: int) -> Partitions:
        """Wait for an assignment of that many partitions."""
        await self.until(lambda: self.owns is not None and len(self.owns) == count)
        return self.owns or frozenset()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, looking when this owner is told something."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def _tell(self, what: str, partitions: Partitions) -> None:
        self.told.append((self.name, what, partitions))
        self._changed.set()


class Clients:
    """Starts clients; leaving the context stops them, the last one first."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.broker = broker
        self.prefix = prefix
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def admin(self) -> Admin:
        admin = self.broker.admin()
        await admin.start()
        self._stack.push_async_callback(admin.stop)
        return admin

    async def topic(self, partitions: int = 1, **config: str) -> str:
        """A fresh topic; dots of the settings' names are underscores here."""
        name = f"{self.prefix}.topic"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        await (await self.admin()).create_topics([Topic(name, partitions, config=settings)])
        return name

    async def producer(self) -> Producer:
        producer = self.broker.producer()
        await producer.start()
        self._stack.push_async_callback(producer.stop)
        return producer

    async def member(self, topic: str, owner: Owner | None = None, options: GroupOptions = QUICK) -> Consumer:
        """A member of the test's one group."""
        member = self.broker.member(self.group, frozenset([topic]), owner or Owner(), options)
        await member.start()
        self._stack.push_async_callback(member.stop)
        return member

    async def reader(self, topic: str, *partitions: int, from_end: bool = False) -> Consumer:
        wanted = frozenset(TopicPartition(topic, partition) for partition in partitions or (0,))
        reader = self.broker.reader(wanted, from_end=from_end)
        await reader.start()
        self._stack.push_async_callback(reader.stop)
        return reader

    async def cut(self, partition: TopicPartition, offset: int) -> None:
        """The log begins at the offset from now on, as when retention has removed what was before."""
        if isinstance(self.broker, MemoryBroker):
            self.broker.cut(partition, offset)
        else:
            async with kafka_admin(self.broker) as admin:
                await admin.delete_records({partition: RecordsToDelete(offset)})

    async def drop(self, topic: str) -> None:
        """Delete the topic, and return when it is gone."""
        if isinstance(self.broker, MemoryBroker):
            self.broker.drop_topic(topic)
        else:
            async with kafka_admin(self.broker) as admin:
                await admin.delete_topics([topic])
                while topic in await admin.list_topics():  # noqa: ASYNC110 - Kafka tells nobody
                    await asyncio.sleep(0.05)

    @property
    def group(self) -> str:
        return f"{self.prefix}.group"


@asynccontextmanager
async def kafka_admin(broker: Broker) -> AsyncIterator[AIOKafkaAdminClient]:
    """For what headrace itself never does to a Kafka."""
    assert isinstance(broker, KafkaBroker | RdKafkaBroker)
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def read(consumer: Consumer, count: int) -> list[Record]:
    """Poll until so many records have come."""
    records: list[Record] = []
    async with asyncio.timeout(LIMIT_S):
        while len(records) < count:
            for polled in (await consumer.poll(count - len(records), 1.0)).values():
                records += polled
    return records
