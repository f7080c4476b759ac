"""The offset ledger of one assigned partition, and the commit that is read off it.

`committed <= lowest unfinished offset`, always: an offset is finished only after its outcome is acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from producer_sdk.broker import Committed, Record, TopicPartition

from .offset_map import SOFT_LIMIT_BYTES, Mark, Remembered, decode, place_of, write

UNKNOWN = -1


class PartitionLedger:
    """Which offsets of one partition are unfinished, for one assignment of it. Pure; one task touches it.

    A ledger lives as long as an assignment: a completion that arrives after the partition was taken away finds its
    ledger fenced and commits nothing, so that a late result can never move somebody else's offset.
    Offsets never polled (compaction, transaction markers) count as finished.

    `start` is where reading begins, with what the assignment before left beside it: what it had completed above is not
    worked again, what it had not is expected to be polled. Without a start the first offset taken is the base.
    """

    __slots__ = (
        "_ahead",
        "_attempts",
        "_committed",
        "_crowded",
        "_expected",
        "_highest",
        "_latest",
        "_latest_mark",
        "_named",
        "_next",
        "_position",
        "_stale",
        "_suspects_end",
        "_trying",
        "_unfinished",
        "fenced",
        "leaving",
        "partition",
    )

    def __init__(self, partition: TopicPartition, start: Committed | None = None, suspect_cap: int = 0) -> None:
        self.partition = partition
        self.fenced = False
        self.leaving = False  # it is being given up in order: what has started is finished, nothing else begins
        self._unfinished: dict[int, None] = {}  # ascending
        self._next = UNKNOWN  # behind all that were taken, or that the assignment before had completed
        self._highest = UNKNOWN  # completed
        self._expected: deque[int] = deque()  # unfinished ones of the assignment before, not polled yet
        self._position: int | None = None  # the next to poll, while that may lie below `_next`
        self._attempts: dict[int, int] = {}
        self._ahead: dict[int, int] = {}  # what was charged before an attempt that is under way
        self._trying: frozenset[int] = frozenset()
        self._named: frozenset[int] = frozenset()  # what the assignment before was trying when it died
        self._suspects_end = 0
        self._crowded = False
        self._stale = True  # `_latest` does not say all that has happened
        self._latest = Committed(UNKNOWN)
        self._latest_mark = Mark.OPEN
        self._committed: Committed | None = None
        if start is not None:
            self._restore(start.offset, decode(start.offset, start.metadata, place_of(partition)), suspect_cap)

    def _restore(self, base: int, remembered: Remembered, suspect_cap: int) -> None:
        self._next = self._position = base
        self._attempts = dict(remembered.attempts)
        if remembered.highest is not None:
            self._highest, self._next = remembered.highest, remembered.highest + 1
            self._unfinished = dict.fromkeys(remembered.incomplete)
            self._expected = deque(remembered.incomplete)
        if remembered.mark is Mark.OPEN:
            self._trying = self._named = remembered.trying
            self._suspects_end = max(remembered.trying, default=base + suspect_cap - 1) + 1

    @property
    def is_ours(self) -> bool:
        """Whether new work on it may begin."""
        return not self.fenced and not self.leaving

    def is_reread(self, offset: int) -> bool:
        """Whether polling has passed this offset already: the log was cut or made anew. To be asked before `take`."""
        return offset < (self._next if self._position is None else self._position)

    def take(self, offset: int) -> bool:
        """Note a polled offset; False for one that is not to be worked on: completed already, or taken before."""
        if offset < self._next:
            return self._take_expected(offset)
        if self._position is not None:
            self._pass(offset)
            self._position = None
        self._unfinished[offset] = None
        self._next = offset + 1
        return True

    def take_all(self, records: Sequence[Record]) -> Sequence[Record]:
        """As `take`, of each record of a haul, in order; those that are to be worked on."""
        offsets = [record.offset for record in records]
        if self._position is None and offsets and offsets[0] >= self._next:
            without_gaps = range(offsets[0], offsets[0] + len(offsets))
            if offsets == list(without_gaps):
                self._unfinished.update(dict.fromkeys(offsets))
                self._next = without_gaps.stop
                return records
        return [record for record in records if self.take(record.offset)]

    def _take_expected(self, offset: int) -> bool:
        if self._position is None or offset < self._position:
            return False
        self._pass(offset)
        self._position = offset + 1
        if not self._expected or self._expected[0] != offset:
            return False
        self._expected.popleft()
        return offset in self._unfinished

    def _pass(self, position: int) -> None:
        """Polling has come to `position`: expected offsets below that it did not show are gone from the log."""
        while self._expected and self._expected[0] < position:
            self.finish(self._expected.popleft())

    def reached(self, position: int) -> None:
        """Note that nothing below `position` is left to poll. All that was polled must have been taken before."""
        if self._position is not None:
            self._pass(position)
            self._position = max(self._position, position)
        if position > self._next:
            self._next = position
            self._stale = True  # behind a gap at the end there is nothing to finish that would say so

    def finish(self, offset: int) -> None:
        """Note that the outcome of an offset is acknowledged; unknown or repeated ones change nothing."""
        self.finish_all((offset,))

    def finish_all(self, offsets: Iterable[int]) -> None:
        """As `finish`, of each."""
        unfinished, highest = self._unfinished, self._highest
        for offset in offsets:
            if unfinished.pop(offset, True) is None:
                self._stale = True
                if self._ahead:
                    self._ahead.pop(offset, None)
                if offset > highest:
                    highest = offset
        self._highest = highest

    @property
    def unfinished(self) -> int:
        """How many are taken or expected, and not finished."""
        return len(self._unfinished)

    def is_unfinished(self, offset: int) -> bool:
        return offset in self._unfinished

    @property
    def is_due(self) -> bool:
        """Whether something has happened that is not committed."""
        return not self.fenced and (self._stale or self._committed is None or self._latest != self._committed)

    @property
    def lowest_unfinished(self) -> int | None:
        """The offset below which all is finished; None while no offset is known."""
        base = next(iter(self._unfinished), self._next)
        return base if base != UNKNOWN else None

    @property
    def crowded(self) -> bool:
        """Whether the map passed the soft limit at the last `committable`: it shrinks by finishing, not by taking."""
        return self._crowded and not self._expected  # what is expected is in the map already, and has to be polled

    def is_suspect(self, offset: int) -> bool:
        """Whether it may be what ended the assignment before: that died while this was, or could be, in flight."""
        return offset < self._suspects_end and (not self._named or offset in self._named) and self._is_live(offset)

    @property
    def _has_suspects(self) -> bool:
        """Whether a suspect is left that has not been tried to its end."""
        return self.expects_suspects or any(map(self.is_suspect, self._unfinished))

    @property
    def expects_suspects(self) -> bool:
        """Whether suspects are still to be polled."""
        return (self._next if self._position is None else self._position) < self._suspects_end

    def bound_suspects(self, end: int) -> None:
        """Note where the log ended at the assignment: what came later cannot be to blame."""
        self._suspects_end = min(self._suspects_end, end)

    def is_narrowed(self, offset: int) -> bool:
        """Whether it was on trial when the worker died: try it alone now."""
        return bool(self._named) and self.is_suspect(offset)

    def _is_live(self, offset: int) -> bool:
        """Whether it is unfinished or still to come."""
        return offset in self._unfinished or offset >= self._next

    @property
    def remembers(self) -> bool:
        """Whether attempts are charged to any offset."""
        return bool(self._attempts)

    def attempts(self, offset: int) -> int:
        """Failed attempts charged to it, in this assignment and before."""
        return self._attempts.get(offset, 0)

    def charge(self, offset: int, attempts: int) -> None:
        """Set the failed attempts of an offset."""
        self._ahead.pop(offset, None)
        if attempts != self._attempts.get(offset, 0):
            self._attempts[offset] = attempts
            self._stale = True

    def charge_ahead(self, offset: int, attempts: int) -> None:
        """Charge an attempt that is about to begin; to be committed before it does, for it may kill us."""
        before = self._ahead.get(offset, self._attempts.get(offset, 0))
        self.charge(offset, attempts)
        self._ahead[offset] = before

    def take_back(self, offset: int) -> None:
        """The attempt charged ahead has not killed anybody."""
        if offset in self._ahead:
            self.charge(offset, self._ahead[offset])

    def take_back_all(self) -> None:
        """No attempt charged ahead is to blame for anything: the partition is given up in order."""
        for offset in list(self._ahead):
            self.take_back(offset)
        if self._trying:
            self.trying(())

    def trying(self, offsets: Iterable[int]) -> None:
        """Set which offsets are tried under suspicion now; to be committed before they are."""
        self._trying = frozenset(offsets)
        self._stale = True

    def is_trying(self, offset: int) -> bool:
        return offset in self._trying

    def committable(self, *, closed: bool = False) -> Committed | None:
        """What to commit: None when that is committed already or the partition is no longer ours.

        `closed` says that the assignment ends in order, so that the next owner suspects nothing of what is unfinished;
        with suspects left it is marked as open all the same.
        """
        base = self.lowest_unfinished
        if self.fenced or base is None:
            return None
        mark = Mark.CLOSED if closed and not self._has_suspects else Mark.OPEN
        if self._stale or base != self._latest.offset or mark is not self._latest_mark:
            self._write(base, mark)
        if self._latest == self._committed:
            return None
        self._committed = None  # once this is sent, nobody knows what is committed until the broker has answered
        return self._latest

    def _write(self, base: int, mark: Mark) -> None:
        if self._attempts or self._trying:
            self._attempts = {
                offset: count for offset, count in self._attempts.items() if count and self._is_live(offset)
            }
            self._trying = frozenset(filter(self._is_live, self._trying))
        if self._highest < base:  # nothing was finished out of order: the usual case
            remembered = Remembered(mark, None, (), self._attempts, self._trying)
        else:
            incomplete = tuple(takewhile(self._highest.__gt__, self._unfinished))
            remembered = Remembered(mark, self._highest, incomplete, self._attempts, self._trying)
        text, whole = write(base, remembered, place_of(self.partition))
        self._crowded = not whole or len(text) > SOFT_LIMIT_BYTES
        self._latest, self._latest_mark, self._stale = Committed(base, text), mark, False

    def committed(self, committed: Committed) -> None:
        """Note what the broker has acknowledged, as `committable` gave it: what has happened since is due still."""
        self._committed = committed

    def fence(self) -> None:
        self.fenced = True


def due_commits(
    ledgers: Iterable[PartitionLedger], closed: frozenset[TopicPartition] = frozenset()
) -> dict[TopicPartition, Committed]:
    """What to commit now for these partitions, of which those in `closed` end in order."""
    due = ((ledger.partition, ledger.committable(closed=ledger.partition in closed)) for ledger in ledgers)
    return {partition: committed for partition, committed in due if committed is not None}
