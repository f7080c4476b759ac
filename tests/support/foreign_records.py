"""Records that only clients in other languages can write: header names that are not UTF-8."""

from __future__ import annotations

from collections.abc import Sequence

import aiokafka
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as BatchBuilder

from producer_sdk.broker import TopicPartition

FOREIGN = None  # in place of a value: write the record with the foreign header name


class _ForeignName(str):
    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\xfe"


async def publish_one_batch(
    bootstrap_servers: str, partition: TopicPartition, values: Sequence[bytes | None], codec: int = 0
) -> None:
    """Publish all values in one batch; codec is Kafka's number (0 is none, 1 gzip)."""
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        batch = producer.create_batch()
        batch._builder = BatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
        for value in values:
            name = _ForeignName("xx") if value is FOREIGN else "ok"
            batch.append(key=b"k", value=b"foreign" if value is FOREIGN else value, timestamp=None,
                         headers=[("a", b"1"), (name, b"2")])  # fmt: skip
        await (await producer.send_batch(batch, partition.topic, partition=partition.partition))
