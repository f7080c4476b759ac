"""Ledgers with offsets taken, their commits, and the ledger that the next owner makes of one."""

from collections.abc import Iterable

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger
from workers.offset_map import Mark, Remembered, decode, encode, place_of

PARTITION = TopicPartition("headrace.m.async", 3)
OPEN, CLOSED = encode(0, Remembered(Mark.OPEN)), encode(0, Remembered(Mark.CLOSED))


def ledger_with(*offsets: int) -> PartitionLedger:
    ledger = PartitionLedger(PARTITION)
    for offset in offsets:
        assert ledger.take(offset)
    return ledger


def finish(ledger: PartitionLedger, offsets: Iterable[int]) -> None:
    for offset in offsets:
        ledger.finish(offset)


def committed_by(ledger: PartitionLedger, *, closed: bool = False) -> Committed:
    """A commit that the broker acknowledges."""
    due = ledger.committable(closed=closed)
    assert due is not None
    ledger.committed(due)
    return due


def next_owner(ledger: PartitionLedger, suspect_cap: int = 0, *, closed: bool = False) -> PartitionLedger:
    return PartitionLedger(PARTITION, committed_by(ledger, closed=closed), suspect_cap)


def remembered_by(committed: Committed | None) -> Remembered:
    assert committed is not None
    return decode(*committed, place_of(PARTITION))
