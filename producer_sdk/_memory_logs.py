"""Topics and their records in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import count
from operator import attrgetter

from ._read_record import ReadRecord
from .broker import BrokerError, NoSuchPlace, Outgoing, Placed, Topic, TopicPartition
from .errors import PayloadTooLarge

_FRAMING_BYTES = 85  # what Kafka adds to a batch of one record, at most
_offset_of = attrgetter("offset")


class Log:
    """The records of one partition, whose offsets ascend from `first` and stay below `end`; some may be missing."""

    __slots__ = ("_records", "end", "first")

    def __init__(self) -> None:
        self.first = 0
        self.end = 0
        self._records: list[ReadRecord] = []

    def append(self, record: ReadRecord) -> None:
        """`record.offset` is `end`."""
        self._records.append(record)
        self.end += 1

    def read(self, position: int, max_records: int) -> tuple[list[ReadRecord], int]:
        """Up to so many records from a position, and where to read on.

        A position that is out of range is taken for `first`, as by Kafka's consumers that begin at the earliest.
        """
        if not self.first <= position <= self.end:
            position = self.first
        start = self._index(position)
        records = self._records[start : start + max_records]
        at_end = start + len(records) == len(self._records)
        return records, self.end if at_end else records[-1].offset + 1 if records else position

    def gap(self, offsets: int) -> None:
        """The next so many offsets hold no record."""
        self.end += offsets

    def cut(self, first: int) -> None:
        """Forget what lies below an offset. Raises ValueError for one that is out of range."""
        if not self.first <= first <= self.end:
            raise ValueError(f"the log reaches from offset {self.first} to {self.end}: it cannot be cut at {first}")
        del self._records[: self._index(first)]
        self.first = first

    def _index(self, position: int) -> int:
        """Of the first record at or above the position."""
        records = self._records
        if not records or position > records[-1].offset:
            return len(records)
        guess = position - records[0].offset  # right unless offsets are missing
        if guess <= 0:
            return 0
        if guess < len(records) and records[guess].offset == position:
            return guess
        return bisect_left(records, position, key=_offset_of)


class Logs:
    """All topics. `wakes` are called with the partition that changed, None for any."""

    def __init__(self, clock: Callable[[], float], max_record_bytes: int) -> None:
        self._clock = clock
        self._max_record_bytes = max_record_bytes
        self._topics: dict[str, list[Log]] = {}
        self._limits: dict[str, int] = {}
        self._rounds: dict[str, count[int]] = {}
        # A dict, for it keeps their order: simulated runs are to be the same again.
        self.wakes: dict[Callable[[TopicPartition | None], None], None] = {}

    def topics(self) -> Mapping[str, int]:
        return {name: len(partitions) for name, partitions in self._topics.items()}

    def create(self, topic: Topic) -> bool:
        """Whether it was missing. Raises BrokerError for settings that no topic can have."""
        if topic.name in self._topics:
            return False
        if topic.partitions < 1:
            raise BrokerError(f"topic {topic.name!r} was not created: {topic.partitions} partitions")
        limit = int(topic.config.get("max.message.bytes", self._max_record_bytes))
        self._topics[topic.name] = [Log() for _ in range(topic.partitions)]
        self._limits[topic.name] = min(limit, self._max_record_bytes)
        self._rounds[topic.name] = count()
        return True

    def drop(self, topic: str) -> None:
        """Forget the topic and its records. Raises NoSuchPlace."""
        self._partitions(topic)
        del self._topics[topic], self._limits[topic], self._rounds[topic]

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
        """Raises NoSuchPlace."""
        place = TopicPartition(topic, partition)
        log = self.log(place)
        timestamp = int(self._clock() * 1000) if record.timestamp_ms is None else record.timestamp_ms
        offset = log.end
        log.append(ReadRecord(topic, partition, offset, timestamp, record.key, record.value, tuple(record.headers)))
        self.wake(place)
        return Placed(topic, partition, offset)

    def wake(self, partition: TopicPartition | None) -> None:
        for wake in tuple(self.wakes):
            wake(partition)

    def log(self, partition: TopicPartition) -> Log:
        """Raises NoSuchPlace."""
        partitions = self._partitions(partition.topic)
        if not 0 <= partition.partition < len(partitions):
            count = len(partitions)
            raise NoSuchPlace(f"topic {partition.topic!r} has no partition {partition.partition}: it has {count}")
        return partitions[partition.partition]

    def find(self, partition: TopicPartition) -> Log | None:
        """None for a partition that does not exist, or no longer."""
        partitions = self._topics.get(partition.topic, ())
        return partitions[partition.partition] if 0 <= partition.partition < len(partitions) else None

    def _partitions(self, topic: str) -> list[Log]:
        if topic not in self._topics:
            raise NoSuchPlace(f"topic {topic!r} does not exist in memory: create it first")
        return self._topics[topic]
