"""A reader of fixed partitions on librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from ._kafka_options import KafkaOptions
from ._rdkafka_connect import check_exist
from ._rdkafka_consumer import RdConsumer
from ._rdkafka_offsets import NEWEST, OLDEST, offsets_of
from .broker import TopicPartition


class RdReader(RdConsumer):
    """Reads fixed partitions from positions that `start` has fixed."""

    def __init__(
        self, bootstrap_servers: str, options: KafkaOptions, partitions: frozenset[TopicPartition], *, from_end: bool
    ) -> None:
        super().__init__(bootstrap_servers, options, options.client_id)  # librdkafka wants a name of a group
        self._partitions = partitions
        self._from_end = from_end

    def _passes(self, error: Any) -> bool:
        # librdkafka looks for its group all the same; a reader does nothing with one, and needs no right to it.
        return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED) or super()._passes(error)

    def _begin(self, consumer: Any, cluster: Any) -> None:
        check_exist(cluster, self._partitions, self._name)
        which = NEWEST if self._from_end else OLDEST
        starts = offsets_of(consumer, self._partitions, which, self._options.send_timeout_s)
        self._shelf.own(starts)
        consumer.incremental_assign([KafkaPartition(*partition, offset) for partition, offset in starts.items()])
