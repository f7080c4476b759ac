"""The ledger: what may be committed."""

from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger, due_commits

PARTITION = TopicPartition("headrace.m.async", 3)


def ledger_with(*offsets: int) -> PartitionLedger:
    ledger = PartitionLedger(PARTITION)
    for offset in offsets:
        assert ledger.take(offset)
    return ledger


def test_nothing_is_committable_before_anything_was_polled() -> None:
    assert PartitionLedger(PARTITION).committable() is None


def test_the_lowest_unfinished_offset_holds_the_commit_back() -> None:
    ledger = ledger_with(5, 6, 7)
    ledger.finish(6)
    ledger.finish(7)
    assert ledger.committable() == 5
    ledger.finish(5)
    assert ledger.committable() == 8


def test_offsets_never_polled_count_as_finished() -> None:
    ledger = ledger_with(10, 17, 40)
    ledger.finish(10)
    assert ledger.committable() == 17


def test_an_offset_polled_again_is_not_taken_twice() -> None:
    ledger = ledger_with(5, 6)
    ledger.finish(5)
    assert not ledger.take(5)
    assert ledger.committable() == 6


def test_a_fenced_ledger_commits_nothing_however_late_its_results_come() -> None:
    ledger = ledger_with(5)
    ledger.fence()
    ledger.finish(5)
    assert ledger.committable() is None


def test_what_was_committed_is_not_committed_again() -> None:
    ledger = ledger_with(5)
    ledger.finish(5)
    ledger.committed(6)
    assert ledger.committable() is None


def test_due_commits_names_only_partitions_that_moved() -> None:
    moved, still = ledger_with(1), PartitionLedger(TopicPartition("t", 0))
    moved.finish(1)
    assert due_commits([moved, still]) == {PARTITION: Committed(2)}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_committable_never_passes_the_lowest_unfinished_offset(steps: list[int], random: object) -> None:
    offsets = [sum(steps[: place + 1]) for place in range(len(steps))]
    ledger = ledger_with(*offsets)
    unfinished = set(offsets)
    order = list(offsets)
    random.shuffle(order)  # type: ignore[attr-defined]
    for offset in order:
        ledger.finish(offset)
        ledger.finish(offset)
        unfinished.discard(offset)
        assert ledger.lowest_unfinished == min(unfinished, default=offsets[-1] + 1)
