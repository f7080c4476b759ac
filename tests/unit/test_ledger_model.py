"""A partition's life against a plain model: no order of polls, completions, commits and owners loses a record."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger
from workers.offset_map import decode, place_of

PARTITION = TopicPartition("headrace.m.async", 0)


class ARecord(NamedTuple):
    offset: int


class Partition(RuleBasedStateMachine):
    """A log with gaps, what the broker holds of the group, and one owner after the other.

    `done` are the offsets with an acknowledged outcome: the truth. `known` are those that this owner finished, or was
    told of. `remembered` are those known when the committed text was written: none of them may run again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []
        self.end = 0
        self.done: set[int] = set()
        self.remembered: set[int] = set()
        self.held = Committed(0)
        self.former: list[PartitionLedger] = []
        self.own()

    def own(self) -> None:
        """A new owner, from what the broker holds."""
        self.ledger = PartitionLedger(PARTITION, self.held, suspect_cap=3)
        self.position = self.held.offset
        self.working: set[int] = set()
        self.known = set(self.remembered)
        self.sent: tuple[Committed, set[int]] | None = None

    @rule(gaps=st.lists(st.integers(1, 4), min_size=1, max_size=8))
    def append(self, gaps: list[int]) -> None:
        for gap in gaps:
            self.log.append(self.end + gap - 1)
            self.end += gap

    @rule(markers=st.integers(1, 3))
    def append_what_is_never_polled(self, markers: int) -> None:
        self.end += markers

    @rule(count=st.integers(1, 6))
    def poll(self, count: int) -> None:
        for offset in [offset for offset in self.log if offset >= self.position][:count]:
            assert not self.ledger.is_reread(offset)
            if self.ledger.take(offset):
                assert offset not in self.remembered
                self.working.add(offset)
            else:
                assert offset in self.done
            assert self.ledger.is_reread(offset)
            assert not self.ledger.take(offset)
            self.position = offset + 1
        if not [offset for offset in self.log if offset >= self.position]:
            self.position = self.end
            self.ledger.reached(self.end)

    @rule(count=st.integers(1, 6))
    def poll_at_once(self, count: int) -> None:
        haul = [ARecord(offset) for offset in self.log if offset >= self.position][:count]
        for record in self.ledger.take_all(haul):  # type: ignore[arg-type]
            assert record.offset not in self.remembered
            self.working.add(record.offset)
        assert {record.offset for record in haul} <= self.working | self.done
        assert not self.ledger.take_all(haul)  # type: ignore[arg-type]
        self.position = haul[-1].offset + 1 if haul else self.position

    @rule(pick=st.integers(0, 100))
    @precondition(lambda self: self.working)
    def finish(self, pick: int) -> None:
        offset = sorted(self.working)[pick % len(self.working)]
        self.ledger.finish(offset)
        self.working.discard(offset)
        self.done.add(offset)
        self.known.add(offset)

    @rule(pick=st.integers(0, 100))
    @precondition(lambda self: self.done - self.working)
    def finish_again(self, pick: int) -> None:
        """What is done already; not what an owner without knowledge of that works on once more."""
        done = sorted(self.done - self.working)
        self.ledger.finish(done[pick % len(done)])

    @rule(offset=st.integers(0, 60))
    def a_former_owner_finishes_late(self, offset: int) -> None:
        for ledger in self.former:
            ledger.finish(offset)
            assert ledger.committable() is None

    @rule(pick=st.integers(0, 100))
    @precondition(lambda self: self.log)
    def compact(self, pick: int) -> None:
        """A record goes that may have been in work before."""
        del self.log[pick % len(self.log)]

    @rule(attempts=st.integers(1, 5), pick=st.integers(0, 100))
    @precondition(lambda self: self.working)
    def suspect(self, attempts: int, pick: int) -> None:
        offset = sorted(self.working)[pick % len(self.working)]
        self.ledger.charge(offset, attempts)
        self.ledger.trying([offset])
        assert self.ledger.attempts(offset) == attempts

    @rule(closed=st.booleans())
    def send_commit(self, closed: bool) -> None:
        due = self.ledger.committable(closed=closed)
        if due is not None:
            self.sent = due, set(self.known)

    @rule(heard=st.booleans())
    @precondition(lambda self: self.sent)
    def commit_arrives(self, heard: bool) -> None:
        assert self.sent is not None
        self.held, self.remembered = self.sent
        changed = self.remembered != self.known
        self.sent = None
        if heard:
            self.ledger.committed(self.held)
            assert self.ledger.committable() is not None or not changed

    @rule(pick=st.integers(0, 100))
    @precondition(lambda self: self.working)
    def finish_while_a_commit_is_under_way(self, pick: int) -> None:
        self.send_commit(closed=False)
        self.finish(pick)
        if self.sent:
            self.commit_arrives(heard=True)

    @rule()
    @precondition(lambda self: self.sent)
    def commit_is_lost(self) -> None:
        self.sent = None

    @rule()
    def commit_and_nothing_is_due(self) -> None:
        due = self.ledger.committable()
        if due is not None:
            self.ledger.committed(due)
            self.held, self.remembered, self.sent = due, set(self.known), None
        assert self.ledger.committable() is None

    @rule()
    def change_owner(self) -> None:
        self.ledger.fence()
        self.former.append(self.ledger)
        self.own()
        assert self.ledger.committable() is not None

    @invariant()
    def nothing_below_the_committed_offset_is_unfinished(self) -> None:
        assert all(offset in self.done for offset in self.log if offset < self.held.offset)
        assert self.ledger.lowest_unfinished is not None
        assert self.ledger.lowest_unfinished >= self.held.offset

    @invariant()
    def the_committed_text_takes_nothing_for_done_that_is_not(self) -> None:
        said = decode(*self.held, place_of(PARTITION))
        if said.highest is not None:
            told_done = {offset for offset in self.log if self.held.offset <= offset <= said.highest}
            assert told_done - set(said.incomplete) <= self.done

    @invariant()
    def a_suspect_is_never_done(self) -> None:
        assert not any(self.ledger.is_suspect(offset) for offset in self.remembered)

    def teardown(self) -> None:
        """The last owner works off what is left: all is done, and all is committed."""
        self.own()
        self.poll(len(self.log) + 1)
        for offset in sorted(self.working, reverse=True):
            self.ledger.finish(offset)
        assert {offset for offset in self.log if offset not in self.done} <= self.working
        due = self.ledger.committable()
        assert due is not None
        assert due.offset == self.end
        assert self.ledger.unfinished == 0


TestAPartitionsLifeLosesNothing = Partition.TestCase
TestAPartitionsLifeLosesNothing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
