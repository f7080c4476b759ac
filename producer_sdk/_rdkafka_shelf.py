"""Where consumed records wait until they are polled: per partition, in order, whatever a poll asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from ._rdkafka_records import Haul
from .broker import Record, TopicPartition


class Shelf:
    """One event loop touches it.

    `positions` are the offsets of the next record to poll. A partition is read to its end when its position is in
    `ends`: that lies behind what is no record (a transaction's marker, what compaction removed).
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, deque[Sequence[Record]]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._highs: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}

    def own(self, starts: Mapping[TopicPartition, int]) -> None:
        """Records of these are accepted from now on."""
        for partition, offset in starts.items():
            self.drop([partition])
            self.positions[partition] = offset
            self._waiting[partition] = deque()

    def drop(self, partitions: Collection[TopicPartition]) -> int:
        """Forget partitions, and refuse what still comes of them; how many records were waiting there."""
        dropped = 0
        for partition in partitions:
            dropped += sum(map(len, self._waiting.pop(partition, ())))
            self._ends.pop(partition, None)
            self._highs.pop(partition, None)
            self.positions.pop(partition, None)
        return dropped

    def add(self, haul: Haul) -> int:
        """Keep what is of partitions owned; how many records were not."""
        refused = 0
        for partition, records in haul.records.items():
            if (waiting := self._waiting.get(partition)) is not None:
                waiting.append(records)
                self._ends.pop(partition, None)
            else:
                refused += len(records)
        for partition, end in haul.ends.items():
            if partition in self._waiting:
                self._ends[partition] = end
                self._reach_end(partition)
        self._highs |= {partition: high for partition, high in haul.highs.items() if partition in self._waiting}
        return refused

    def take(self, max_records: int, paused: Collection[TopicPartition]) -> dict[TopicPartition, Sequence[Record]]:
        """At most so many records, of partitions in turn."""
        taken: dict[TopicPartition, Sequence[Record]] = {}
        left = max_records
        for partition in list(self._waiting):
            if left <= 0:
                break
            if self._waiting[partition] and partition not in paused:
                taken[partition] = records = self._part(partition, left)
                left -= len(records)
                self.positions[partition] = records[-1].offset + 1
                self._reach_end(partition)
                self._waiting[partition] = self._waiting.pop(partition)  # the others come first next time
        return taken

    def _part(self, partition: TopicPartition, most: int) -> Sequence[Record]:
        waiting = self._waiting[partition]
        first = waiting.popleft()
        if len(first) > most:
            waiting.appendleft(first[most:])
            return first[:most]
        if not waiting or len(first) == most:
            return first
        records = list(first)
        while waiting and len(records) < most:
            chunk = waiting.popleft()
            room = most - len(records)
            records += chunk[:room]
            if len(chunk) > room:
                waiting.appendleft(chunk[room:])
        return records

    def waiting(self, partitions: Collection[TopicPartition]) -> int:
        """How many records of these wait."""
        return sum(len(chunk) for partition in partitions for chunk in self._waiting.get(partition, ()))

    def lag(self) -> dict[TopicPartition, int]:
        """Records not yet polled, by partition; those never fetched are absent. Any thread may ask."""
        lag = {}
        for partition, high in list(self._highs.items()):
            position = self.positions.get(partition)
            if position is not None:
                # What an open transaction holds back lies behind the end, and cannot be read yet.
                at_end = self._ends.get(partition) == position and not self._waiting.get(partition)
                lag[partition] = 0 if at_end else max(0, high - position)
        return lag

    def _reach_end(self, partition: TopicPartition) -> None:
        end = self._ends.get(partition)
        if end is not None and not self._waiting[partition]:
            self.positions[partition] = end
