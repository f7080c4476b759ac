"""Records are taken from aiokafka by the batch: each once, in order, none below where reading began."""

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from producer_sdk._kafka_haul import Hauled
from producer_sdk._read_record import ReadRecord

PLACE = TopicPartition("t", 3)


def batch(first: int, *offsets: int, aborted: bool = False, headers: Any = ()) -> bytes:
    """A batch whose first offset is `first`, of records at these offsets."""
    builder = DefaultRecordBatchBuilder(2, 0, int(aborted), 7 if aborted else -1, -1, 0, 1 << 20)
    for offset in offsets:
        builder.append(offset - first, 1000 + offset, b"key", b"v%d" % offset, list(headers))
    data = bytearray(builder.build())
    data[0:8] = first.to_bytes(8, "big")
    return bytes(data)


def hauled(*batches: bytes, start: int = 0, aborted: Any = None) -> Hauled:
    records = MemoryRecords(b"".join(batches))
    return Hauled(PartitionRecords(PLACE, records, aborted, start, None, None, True, READ_COMMITTED))


def offsets(records: list[ReadRecord]) -> list[int]:
    return [record.offset for record in records]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_records_of_several_batches_come_once_and_in_order_however_many_are_asked_for(most: int) -> None:
    held = hauled(batch(0, 0, 1, 2), batch(3, 3), batch(4, 4, 5, 6, 7))
    taken: list[int] = []
    while part := held.take(most):
        assert len(part) == min(most, 8 - len(taken))
        taken += offsets(part)
    assert (taken, held.next_fetch_offset) == (list(range(8)), 8)


def test_a_record_has_its_place_and_all_its_parts() -> None:
    (record,) = hauled(batch(5, 5, headers=[("a", b"1"), ("a", None)]), start=5).take(9)
    assert record == ReadRecord("t", 3, 5, 1005, b"key", b"v5", (("a", b"1"), ("a", None)))  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_what_lies_below_the_offset_that_was_asked_for_is_left_out(most: int) -> None:
    held = hauled(batch(0, 0, 1, 2, 3, 4), start=3)
    assert offsets(held.take(most) + held.take(most)) == [3, 4]
    assert not held.take(most)


def test_reading_goes_on_behind_a_batch_whose_last_records_are_gone() -> None:
    data = bytearray(batch(0, 0, 1))
    data[23:27] = (9).to_bytes(4, "big")  # its last offset stays when compaction removes the record
    held = hauled(bytes(data))
    held._held._check_crcs = False
    assert (offsets(held.take(5)), held.next_fetch_offset) == ([0, 1], 10)


def test_records_of_an_aborted_transaction_are_passed_over() -> None:
    held = hauled(batch(0, 0, 1, aborted=True), batch(2, 2), aborted=[(7, 0)])
    assert (offsets(held.take(5)), held.next_fetch_offset) == ([2], 3)


def test_a_damaged_batch_raises_and_says_so_of_itself() -> None:
    data = batch(0, 0)
    held = hauled(data[:-1] + b"?")
    with pytest.raises(CorruptRecordException):
        held.take(5)
    assert held.failed
    assert held.next_fetch_offset == 0
