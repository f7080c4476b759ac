"""What aiokafka has fetched, taken out a batch of records at a time.

Its own `getmany` makes an object of eleven fields a record, by way of two generators: most of what reading costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from aiokafka import TopicPartition as KafkaPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException

from ._kafka_batches import Batches
from ._kafka_hand_over import note_room
from ._read_record import ReadRecord


class Hauled:
    """The fetched records of one partition; stands in the place of aiokafka's PartitionRecords, which it goes by.

    Attributes:
        next_fetch_offset: as aiokafka reads it: behind what was taken.
        failed: taking ended in an error.
    """

    def __init__(self, held: PartitionRecords) -> None:
        self.next_fetch_offset: int = held.next_fetch_offset
        self.failed = False
        held._records_iterator = None  # which holds `held`: what was fetched would stay until garbage is collected
        self._held = held
        self._batch: Any = None
        self._records: Iterator[Any] = iter(())

    def take(self, most: int) -> list[ReadRecord]:
        """The next records; fewer than `most` only at the end.

        Raises:
            CorruptRecordException, UnicodeDecodeError: a record cannot be decoded.
        """
        taken: list[ReadRecord] = []
        try:
            while (left := most - len(taken)) > 0:
                if self._batch is None and not self._next_batch():
                    break
                taken += self._of_batch(left)
        except BaseException:
            self.failed = True
            raise
        return taken

    def _of_batch(self, most: int) -> list[ReadRecord]:
        topic, partition = self._held._tp
        first = self.next_fetch_offset
        taken = [
            ReadRecord(
                topic,
                partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple(headers) if (headers := record.headers) else (),
            )
            for record in islice(self._records, most)
        ]
        if len(taken) < most:
            # Its own word and not the last record's: compaction may have removed that.
            self.next_fetch_offset = self._batch.next_offset
            self._batch = None
        else:
            self.next_fetch_offset = max(first, taken[-1].offset + 1)
        if taken and taken[0].offset < first:  # a fetch begins with the whole batch that its offset lies in
            taken = [record for record in taken if record.offset >= first]
        return taken

    def _next_batch(self) -> bool:
        """Come to the next batch that holds records for us; False at the end."""
        held = self._held
        while held._records.has_next():
            batch = held._records.next_batch()
            if held._check_crcs and not _is_sound(held._records, batch):
                raise CorruptRecordException(f"Invalid CRC - {held._tp}")
            if (batch.is_control_batch or batch.producer_id is not None) and self._is_left_out(batch):
                self.next_fetch_offset = batch.next_offset
                continue
            self._batch = batch
            self._records = chain(batch)  # a batch can be iterated once, a chain of it goes on where it stopped
            return True
        return False

    def _is_left_out(self, batch: Any) -> bool:
        """Whether it holds a transaction's marker, or records of one that was aborted."""
        held = self._held
        if held._isolation_level == READ_COMMITTED and batch.producer_id is not None:
            held._consume_aborted_up_to(batch.base_offset)
            if batch.is_control_batch and held._contains_abort_marker(batch):
                held._aborted_producers.discard(batch.producer_id)
            if batch.is_transactional and batch.producer_id in held._aborted_producers:
                return True
        return bool(batch.is_control_batch)


def _is_sound(batches: Any, batch: Any) -> bool:
    sound: bool = batches.is_sound(batch) if type(batches) is Batches else batch.validate_crc()
    return sound


def haul(consumer: Any, wanted: Sequence[KafkaPartition], most: int) -> dict[KafkaPartition, Sequence[Any]]:
    """At most so many of the records that have arrived, of the wanted partitions or, if none are named, of all.

    As `getmany` does it without waiting: it counts as a poll, moves the positions on and has more fetched.

    Raises:
        CorruptRecordException, UnicodeDecodeError: a record cannot be decoded; what was taken before it is lost.
        KafkaError: what aiokafka noted of a partition.
    """
    fetcher, hauled = consumer._fetcher, dict[KafkaPartition, Sequence[Any]]()
    with consumer._subscription.fetch_context():
        for place, result in list(fetcher._records.items()):
            if wanted and place not in wanted:
                if not consumer._subscription.is_assigned(place):
                    del fetcher._records[place]
                continue
            if type(result) is not FetchResult:
                if not hauled:
                    _forget(fetcher, place)
                    result.check_raise()
                return hauled
            records = _take(result, place, most)
            if not result.has_more():
                _forget(fetcher, place)
            if records:
                hauled[place] = records
                most -= len(records)
                if not most:
                    break
    return hauled


def _take(result: FetchResult, place: KafkaPartition, most: int) -> Sequence[Any]:
    if not result.check_assignment(place) or not result.has_more():
        return ()
    if type(result._partition_records) is PartitionRecords:
        result._partition_records = Hauled(result._partition_records)
    if type(result._partition_records) is not Hauled:
        records: Sequence[Any] = result.getall(most)
        return records
    records = result._partition_records.take(most)
    result._update_position()
    if len(records) < most:
        result._partition_records = None
    return records


def _forget(fetcher: Any, place: KafkaPartition) -> None:
    """All of it is taken: more may be fetched."""
    del fetcher._records[place]
    note_room(fetcher)
