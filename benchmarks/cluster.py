"""The topics of a measurement on Apache Kafka: made, filled, rewound, counted and read again. Uses aiokafka alone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError

REQUEST_PARTITIONS = 4
REPLY_PARTITIONS = 32
REPLY_PARTITION = 7
FILL_BATCH_BYTES = 256 * 1024
READ_LIMIT_MS = 10_000
REWIND_LIMIT_S, REWIND_PAUSE_S = 40.0, 0.5
# A new broker's group coordinator is not there at first, which aiokafka calls an error; what really fails raises.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


class Cluster:
    """Connections to one broker. Belongs to one event loop."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        self._reader = AIOKafkaConsumer(bootstrap_servers=servers)

    async def __aenter__(self) -> Self:
        await self._admin.start()
        await self._reader.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._reader.stop()
        await self._admin.close()

    async def create(self, topic: str, partitions: int) -> None:
        """Make a topic that is not there yet, and wait until this client knows it."""
        await self._admin.create_topics([NewTopic(topic, partitions, 1)])
        await self._reader.topics()

    async def delete(self, topic: str) -> None:
        await self._admin.delete_topics([topic])

    async def fill(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Write keys and values in turn over the topic's partitions, in large batches as a bulk producer does."""
        producer = AIOKafkaProducer(bootstrap_servers=self.servers, acks="all", max_batch_size=FILL_BATCH_BYTES)
        async with producer:
            builders = [producer.create_batch() for _ in range(REQUEST_PARTITIONS)]
            sends = []
            for number, (key, value) in enumerate(records):
                partition = number % REQUEST_PARTITIONS
                if builders[partition].append(key=key, value=value, timestamp=None) is None:
                    sends.append(await producer.send_batch(builders[partition], topic, partition=partition))
                    builders[partition] = producer.create_batch()
                    builders[partition].append(key=key, value=value, timestamp=None)
            for partition, builder in enumerate(builders):
                sends.append(await producer.send_batch(builder, topic, partition=partition))
            await asyncio.gather(*sends)

    async def rewind(self, group: str, topic: str) -> None:
        """Have a group begin at the first record again, once it is empty: who was killed is a member for a while yet.

        Raises CommitFailedError when it has members for REWIND_LIMIT_S.
        """
        ends = time.monotonic() + REWIND_LIMIT_S
        while True:
            try:
                await self._commit_starts(group, topic)
                return
            except CommitFailedError:
                if time.monotonic() > ends:
                    raise
                await asyncio.sleep(REWIND_PAUSE_S)

    async def _commit_starts(self, group: str, topic: str) -> None:
        places = [TopicPartition(topic, partition) for partition in range(REQUEST_PARTITIONS)]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(places)
            await consumer.commit(dict.fromkeys(places, 0))
        finally:
            await consumer.stop()

    async def end(self, topic: str) -> int:
        """The offset behind the last record of REPLY_PARTITION."""
        place = TopicPartition(topic, REPLY_PARTITION)
        ends: dict[TopicPartition, int] = await self._reader.end_offsets([place])
        return ends[place]

    async def read(self, topic: str, first: int, last: int) -> Sequence[bytes]:
        """The values of REPLY_PARTITION from offset `first` to `last` (not included)."""
        place = TopicPartition(topic, REPLY_PARTITION)
        values: list[bytes] = []
        async with AIOKafkaConsumer(bootstrap_servers=self.servers) as consumer:
            consumer.assign([place])
            consumer.seek(place, first)
            while len(values) < last - first:
                haul = await consumer.getmany(place, timeout_ms=READ_LIMIT_MS)
                if not haul:
                    raise TimeoutError(f"{topic}:{REPLY_PARTITION} gave {len(values)} of {last - first} records.")
                values += [record.value for record in haul[place]]
        return values[: last - first]
