"""What a group has committed, asked by aiokafka: confluent-kafka reads the text beside an offset past its end.

librdkafka hands it the text without an end, as it came from Kafka, and confluent-kafka takes it for a string of C.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ._kafka_admin import KafkaAdmin
from ._kafka_hidden import asking
from ._kafka_options import KafkaOptions
from .broker import BrokerError, Committed, TopicPartition


async def starts_of(
    bootstrap_servers: str, options: KafkaOptions, group: str, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """Where reading begins: at what is committed, else at the oldest record.

    Raises:
        BrokerError: no answer within `commit_timeout_s`.
    """
    fault: BrokerError | None = None
    try:
        async with asyncio.timeout(options.commit_timeout_s):
            while partitions:
                try:
                    async with asking(bootstrap_servers, options) as admin:
                        return await _starts(admin, group, partitions)
                except BrokerError as err:  # a broker that restarts, or does not know the partitions yet
                    fault = err
                await asyncio.sleep(options.retry_backoff_s)
    except TimeoutError as err:
        limit_s = options.commit_timeout_s
        raise fault or BrokerError(f"group {group!r} did not say within {limit_s:g} s what is committed") from err
    return {}


async def _starts(
    admin: KafkaAdmin, group: str, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, Committed]:
    committed: Mapping[TopicPartition, Committed] = await admin.committed(group)
    fresh = partitions - committed.keys()
    bounds = await admin.bounds(fresh) if fresh else {}
    return {
        partition: committed[partition] if partition in committed else Committed(bounds[partition].first)
        for partition in sorted(partitions)
    }
