"""Suspects: who is tried when, with whom, and what is charged; the next worker learns it from the commit alone."""

from __future__ import annotations

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger
from workers.suspects import Suspect, Suspects, begin, end

PARTITION = TopicPartition("p.m.async", 0)
LIMIT = 3
LOG = 20  # records in the partition
GROUP = 4


def after_death(ledger: PartitionLedger) -> PartitionLedger:
    """The ledger of the next owner, who has polled all."""
    committed = ledger.committable()
    assert committed is not None
    following = PartitionLedger(PARTITION, committed, suspect_cap=10)
    following.bound_suspects(LOG)
    return following


def fresh() -> PartitionLedger:
    return PartitionLedger(PARTITION, Committed(0), suspect_cap=10)


def suspects_of(ledger: PartitionLedger, limit: int = LIMIT) -> Suspects:
    suspects = Suspects(GROUP, limit)
    for offset in range(ledger.lowest_unfinished or 0, LOG):
        if ledger.take(offset) and ledger.is_suspect(offset):
            record = ReadRecord(PARTITION.topic, 0, offset, 0, None, b"", ())
            suspects.add(Suspect(record, ledger))
    return suspects


def offsets(suspects: Suspects) -> list[int]:
    return [each.offset for each in suspects.next_trial().suspects]


def test_nothing_is_suspected_where_no_worker_has_ended() -> None:
    assert not len(suspects_of(fresh()))


def test_the_records_that_can_have_been_in_flight_are_tried_a_batch_at_a_time() -> None:
    suspects = suspects_of(after_death(fresh()))
    assert [offsets(suspects) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert not len(suspects)


def test_a_trial_that_ends_the_worker_leaves_only_its_own_records_under_suspicion_each_alone() -> None:
    ledger = after_death(fresh())
    suspects = suspects_of(ledger)
    begin(suspects.next_trial())
    following = suspects_of(after_death(ledger))
    trials = [following.next_trial() for _ in range(GROUP)]
    assert [(trial.alone, [each.offset for each in trial.suspects]) for trial in trials] == [
        (True, [offset]) for offset in range(GROUP)
    ]
    assert not len(following)


def test_a_record_that_ends_every_worker_has_its_attempts_counted_and_its_neighbours_have_none() -> None:
    ledger, deaths, charged = after_death(fresh()), 1, 0
    while charged < LIMIT:
        suspects = suspects_of(ledger)
        trial = suspects.next_trial()
        begin(trial)
        ledger, deaths = after_death(ledger), deaths + 1
        charged = ledger.attempts(0)
    assert deaths <= LIMIT + 1
    assert [ledger.attempts(offset) for offset in range(1, LOG)] == [0] * (LOG - 1)


def test_a_limit_of_one_tries_each_alone_from_the_beginning() -> None:
    assert offsets(suspects_of(after_death(fresh()), limit=1)) == [0]


def test_a_trial_outlived_leaves_no_suspicion_behind() -> None:
    ledger = after_death(fresh())
    suspects = suspects_of(ledger)
    while len(suspects):
        trial = suspects.next_trial()
        begin(trial)
        assert trial.pending
        for each in trial.suspects:
            ledger.finish(each.offset)
        assert not trial.pending
        end(trial)
    closed = ledger.committable(closed=True)
    assert closed is not None
    assert not len(suspects_of(PartitionLedger(PARTITION, closed, suspect_cap=10)))


def test_who_leaves_in_the_middle_of_an_inspection_leaves_the_rest_under_suspicion() -> None:
    ledger = after_death(fresh())
    trial = suspects_of(ledger).next_trial()
    begin(trial)
    for each in trial.suspects:
        ledger.finish(each.offset)
    end(trial)
    closed = ledger.committable(closed=True)
    assert closed is not None
    following = PartitionLedger(PARTITION, closed, suspect_cap=10)
    following.bound_suspects(LOG)
    assert offsets(suspects_of(following)) == [4, 5, 6, 7]


def test_records_that_came_after_the_end_are_not_suspected() -> None:
    ledger = after_death(fresh())
    ledger.bound_suspects(2)
    assert offsets(suspects_of(ledger)) == [0, 1]


def test_a_pending_trial_of_a_partition_that_was_lost_is_over() -> None:
    ledger = after_death(fresh())
    trial = suspects_of(ledger).next_trial()
    ledger.fence()
    assert not trial.pending
