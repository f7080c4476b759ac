"""The offset ledger of one assigned partition, and the commit that is read off it.

`committed <= lowest unfinished offset`, always: an offset is finished only after its outcome is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from producer_sdk.broker import Committed, Consumer, TopicPartition


class PartitionLedger:
    """Which offsets of one partition are unfinished, for one assignment of it. Pure; one task touches it.

    A ledger lives as long as an assignment: a completion that arrives after the partition was taken away finds its
    ledger fenced and changes nothing, so that a late result can never move somebody else's offset.
    Offsets never polled (compaction, transaction markers) count as finished.
    """

    __slots__ = ("_committed", "_next", "_unfinished", "fenced", "partition")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.fenced = False
        self._unfinished: dict[int, None] = {}
        self._next: int | None = None
        self._committed: int | None = None

    def take(self, offset: int) -> bool:
        """Note a polled offset; False for one taken before (redelivered within the assignment), not to be worked on."""
        if self._next is not None and offset < self._next:
            return False
        self._unfinished[offset] = None
        self._next = offset + 1
        return True

    def finish(self, offset: int) -> None:
        """Note that the outcome of an offset is acknowledged; unknown or repeated ones change nothing."""
        self._unfinished.pop(offset, None)

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)

    @property
    def lowest_unfinished(self) -> int | None:
        """The offset below which all is finished; None before anything was polled."""
        return next(iter(self._unfinished), self._next)

    def committable(self) -> int | None:
        """The offset to commit, or None when there is nothing new or the partition is no longer ours."""
        base = None if self.fenced else self.lowest_unfinished
        return base if base != self._committed else None

    def committed(self, offset: int) -> None:
        self._committed = offset

    def fence(self) -> None:
        self.fenced = True


def due_commits(ledgers: Iterable[PartitionLedger]) -> dict[TopicPartition, Committed]:
    """What to commit now for these partitions."""
    offsets = ((ledger.partition, ledger.committable()) for ledger in ledgers)
    return {partition: Committed(offset) for partition, offset in offsets if offset is not None}


async def commit(consumer: Consumer, ledgers: Mapping[TopicPartition, PartitionLedger]) -> int:
    """Commit what has become committable; the number of partitions committed.

    Raises:
        CommitRefused: the membership is gone; the partitions are somebody else's.
        BrokerError: no answer in time; commit again later.
    """
    due = due_commits(ledgers.values())
    if due:
        await consumer.commit(due)
        for partition, (offset, _) in due.items():
            ledgers[partition].committed(offset)
    return len(due)
