"""Topics and their records in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

from .broker import BrokerError, Headers, NoSuchPlace, Outgoing, Placed, Topic, TopicPartition
from .errors import PayloadTooLarge

_FRAMING_BYTES = 85  # what Kafka adds to a batch of one record, at most


class MemoryRecord(NamedTuple):
    """A record as consumed; `timestamp` is epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Logs:
    """All topics. `wakes` are called at each append with the partition."""

    def __init__(self, clock: Callable[[], float], max_record_bytes: int) -> None:
        self._clock = clock
        self._max_record_bytes = max_record_bytes
        self._topics: dict[str, list[list[MemoryRecord]]] = {}
        self._limits: dict[str, int] = {}
        self._rounds: dict[str, count[int]] = {}
        self.wakes: set[Callable[[TopicPartition], None]] = set()

    def topics(self) -> Mapping[str, int]:
        return {name: len(partitions) for name, partitions in self._topics.items()}

    def create(self, topic: Topic) -> bool:
        """Whether it was missing. Raises BrokerError for settings that no topic can have."""
        if topic.name in self._topics:
            return False
        if topic.partitions < 1:
            raise BrokerError(f"topic {topic.name!r} was not created: {topic.partitions} partitions")
        limit = int(topic.config.get("max.message.bytes", self._max_record_bytes))
        self._topics[topic.name] = [[] for _ in range(topic.partitions)]
        self._limits[topic.name] = min(limit, self._max_record_bytes)
        self._rounds[topic.name] = count()
        return True

    def place(self, topic: str, key: bytes | None) -> int:
        """The partition for a record that names none: by Kafka's hash of the key, in turn without a key."""
        partitions = len(self._partitions(topic))
        if key is None:
            return next(self._rounds[topic]) % partitions
        from aiokafka.partitioner import murmur2  # here, since importing aiokafka takes a quarter of a second

        return int(murmur2(key) & 0x7FFFFFFF) % partitions

    def check_size(self, topic: str, record: Outgoing) -> None:
        """Raises PayloadTooLarge, or BrokerError for an unknown topic."""
        self._partitions(topic)
        size = _FRAMING_BYTES + len(record.key or b"") + len(record.value or b"")
        size += sum(len(name) + len(value) + 4 for name, value in record.headers)
        if size > self._limits[topic]:
            limit = self._limits[topic]
            raise PayloadTooLarge(f"the record for topic {topic!r} has {size} bytes: at most {limit} are accepted")

    def append(self, topic: str, partition: int, record: Outgoing) -> Placed:
        log = self.log(TopicPartition(topic, partition))
        timestamp = round(self._clock() * 1000) if record.timestamp_ms is None else record.timestamp_ms
        offset = len(log)
        log.append(MemoryRecord(topic, partition, offset, timestamp, record.key, record.value, tuple(record.headers)))
        for wake in tuple(self.wakes):
            wake(TopicPartition(topic, partition))
        return Placed(topic, partition, offset)

    def log(self, partition: TopicPartition) -> list[MemoryRecord]:
        """The partition's records, whose indices are their offsets. Raises BrokerError."""
        partitions = self._partitions(partition.topic)
        if not 0 <= partition.partition < len(partitions):
            count = len(partitions)
            raise NoSuchPlace(f"topic {partition.topic!r} has no partition {partition.partition}: it has {count}")
        return partitions[partition.partition]

    def _partitions(self, topic: str) -> list[list[MemoryRecord]]:
        if topic not in self._topics:
            raise NoSuchPlace(f"topic {topic!r} does not exist in memory: create it first")
        return self._topics[topic]
