"""The ledger: what may be committed."""

from hypothesis import given
from hypothesis import strategies as st
from ledgers import CLOSED, OPEN, PARTITION, committed_by, finish, ledger_with, remembered_by

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger, due_commits
from workers.offset_map import LIMIT_BYTES, SOFT_LIMIT_BYTES, Mark, Remembered


def test_nothing_is_committable_before_an_offset_is_known() -> None:
    assert PartitionLedger(PARTITION).committable() is None


def test_the_lowest_unfinished_offset_holds_the_commit_back() -> None:
    ledger = ledger_with(5, 6, 7)
    finish(ledger, [6, 7])
    assert committed_by(ledger).offset == 5
    ledger.finish(5)
    assert committed_by(ledger) == Committed(8, OPEN)


def test_offsets_never_polled_count_as_finished() -> None:
    ledger = ledger_with(10, 17, 40)
    ledger.finish(10)
    assert ledger.committable() == Committed(17, OPEN)


def test_gaps_at_the_end_count_as_finished_once_they_are_reached() -> None:
    ledger = ledger_with(10)
    ledger.finish(10)
    assert committed_by(ledger).offset == 11
    ledger.reached(15)
    assert committed_by(ledger).offset == 15
    assert not ledger.is_reread(15)
    assert ledger.is_reread(14)


def test_an_offset_polled_again_is_not_taken_twice() -> None:
    ledger = ledger_with(5, 6)
    ledger.finish(5)
    assert ledger.is_reread(5)
    assert not ledger.take(5)
    assert committed_by(ledger).offset == 6


def test_a_fenced_ledger_commits_nothing_however_late_its_results_come() -> None:
    ledger = ledger_with(5)
    ledger.fence()
    ledger.finish(5)
    assert ledger.committable() is None
    assert ledger.committable(closed=True) is None


def test_what_was_committed_is_not_committed_again() -> None:
    ledger = ledger_with(5, 6)
    ledger.finish(6)
    committed_by(ledger)
    ledger.finish(6)
    ledger.finish(99)
    assert ledger.committable() is None


def test_a_completion_during_a_commit_is_due_afterwards() -> None:
    ledger = ledger_with(5, 6)
    sent = ledger.committable()
    ledger.finish(6)
    assert sent is not None
    ledger.committed(sent)
    assert remembered_by(ledger.committable()).highest == 6


def test_what_a_commit_without_an_answer_may_have_overwritten_is_due_again() -> None:
    ledger = ledger_with(5)
    first = committed_by(ledger)
    assert ledger.committable(closed=True) == Committed(5, CLOSED)
    assert ledger.committable() == first


def test_due_commits_names_only_partitions_that_moved() -> None:
    moved, still = ledger_with(1), PartitionLedger(TopicPartition("t", 0))
    moved.finish(1)
    assert due_commits([moved, still]) == {PARTITION: Committed(2, OPEN)}
    assert due_commits([moved, still], frozenset({PARTITION})) == {PARTITION: Committed(2, CLOSED)}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_committable_never_passes_the_lowest_unfinished_offset(steps: list[int], random: object) -> None:
    offsets = [sum(steps[: place + 1]) for place in range(len(steps))]
    ledger = ledger_with(*offsets)
    unfinished = set(offsets)
    order = list(offsets)
    random.shuffle(order)  # type: ignore[attr-defined]
    for offset in order:
        finish(ledger, [offset, offset])
        unfinished.discard(offset)
        assert ledger.lowest_unfinished == min(unfinished, default=offsets[-1] + 1)
        assert committed_by(ledger).offset == ledger.lowest_unfinished


def test_a_map_past_the_soft_limit_makes_the_ledger_crowded_until_it_shrinks() -> None:
    ledger = ledger_with(*range(40_000))
    soft_places = SOFT_LIMIT_BYTES // 4 * 3 * 8
    finish(ledger, range(1, soft_places - 200, 2))
    assert len(committed_by(ledger).metadata) <= SOFT_LIMIT_BYTES
    assert not ledger.crowded
    finish(ledger, range(soft_places - 199, soft_places + 200, 2))
    assert SOFT_LIMIT_BYTES < len(committed_by(ledger).metadata) < LIMIT_BYTES
    assert ledger.crowded
    finish(ledger, range(0, 1000, 2))
    committed_by(ledger)
    assert not ledger.crowded


def test_past_the_limit_the_offset_alone_is_committed_and_the_ledger_stays_crowded() -> None:
    ledger = ledger_with(*range(40_000))
    finish(ledger, range(1, 40_000, 2))
    ledger.charge(4, 2)
    assert remembered_by(committed_by(ledger)) == Remembered(Mark.OPEN, attempts={4: 2})
    assert ledger.crowded
