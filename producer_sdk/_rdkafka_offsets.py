"""Where partitions begin and end, asked by a consumer of librdkafka."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from .broker import TopicPartition

OLDEST, NEWEST = -2, -1  # Kafka's words for them in a request for offsets by time


def offsets_of(
    consumer: Any, partitions: Collection[TopicPartition], which: int, timeout_s: float
) -> dict[TopicPartition, int]:
    """The first or last offset of each. Blocks. Raises KafkaException.

    `list_topics` may not be asked here: within a callback of librdkafka, the next callback would abort the process.
    """
    if not partitions:
        return {}
    asked = [KafkaPartition(topic, partition, which) for topic, partition in partitions]
    answered = consumer.offsets_for_times(asked, timeout=timeout_s)
    for each in answered:
        if each.error is not None:
            raise KafkaException(each.error)
    return {TopicPartition(each.topic, each.partition): each.offset for each in answered}
