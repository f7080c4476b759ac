"""The backlog: order, bounds, buckets, expiry."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_works import AT_ONCE, Takes, all_ids, backlog_of, due, ids, work

from producer_sdk.broker import TopicPartition
from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.batch import BatchRule
from workers.commit import PartitionLedger
from workers.runners.policies import BatchPolicy


def test_lanes_come_in_order_and_deadlines_within_a_lane() -> None:
    backlog = backlog_of(
        work("bulk", lane=Lane.BULK, expires=1.0),
        work("late", lane=Lane.INTERACTIVE, expires=9.0),
        work("soon", lane=Lane.INTERACTIVE, expires=2.0),
        work("async"),
    )
    assert ids(backlog.take(0.0)) == ["soon", "late", "async", "bulk"]


def test_a_request_without_deadline_is_not_starved_by_later_ones_with_deadlines() -> None:
    backlog = backlog_of(work("old", arrived=0.0), work("new", arrived=50.0, expires=80.0))
    assert ids(backlog.take(50.0))[0] == "old"


def test_a_batch_never_exceeds_its_rows_bytes_or_cost() -> None:
    works = [work(rows=3, nbytes=40, cost=5.0) for _ in range(10)]
    assert backlog_of(*works, rows=8).take(0.0).rows == 6
    assert len(backlog_of(*works, max_bytes=100).take(0.0).works) == 2
    backlog = backlog_of(*works)
    backlog.rule = BatchRule(32, 10_000, 0.01, max_cost=16.0)
    assert len(backlog.take(0.0).works) == 3


@pytest.mark.parametrize("kind", [{"nbytes": 500}, {"rows": 99}])
def test_a_single_request_over_the_bounds_still_runs(kind: dict[str, int]) -> None:
    assert len(backlog_of(work(**kind), work(), max_bytes=100).take(0.0).works) == 1


def test_a_bucket_that_has_no_room_for_more_rows_gets_smaller_batches() -> None:
    backlog = backlog_of(*(work(bucket="large") for _ in range(9)), row_cap=lambda bucket: 4)
    assert due(backlog, idle=False) == AT_ONCE
    assert backlog.take(0.0).rows == 4


def test_the_largest_preferred_size_that_is_reached_is_taken() -> None:
    backlog = backlog_of(*(work() for _ in range(11)))
    backlog.rule = BatchRule(32, 10_000, 0.01, preferred_rows=(4, 8))
    assert [backlog.take(0.0).rows for _ in range(2)] == [8, 3]


def test_buckets_never_mix_and_the_most_urgent_runs_first() -> None:
    backlog = backlog_of(
        work("a", bucket=(1,), expires=5.0), work("b", bucket=(2,), expires=1.0), work("c", bucket=(1,))
    )
    assert [ids(backlog.take(0.0)), ids(backlog.take(0.0))] == [["b"], ["a", "c"]]


def test_a_bucket_that_gathers_does_not_hold_up_a_full_one() -> None:
    backlog = backlog_of(work("first", bucket=1), *(work("full", bucket=2) for _ in range(4)), rows=4)
    assert due(backlog) == AT_ONCE
    assert ids(backlog.take(0.0)) == ["full"] * 4
    assert due(backlog) == 0.01


def test_a_bucket_that_has_waited_long_enough_goes_before_a_full_one() -> None:
    backlog = backlog_of(work("first", bucket=1), *(work("full", bucket=2) for _ in range(4)), rows=4)
    assert ids(backlog.take(0.01)) == ["first"]


def test_a_request_that_was_in_flight_at_a_death_runs_alone_and_first() -> None:
    backlog = backlog_of(work("good"), work("suspect", alone=True), work("other"))
    assert due(backlog, idle=False) == AT_ONCE
    assert [ids(backlog.take(0.0)), ids(backlog.take(0.0))] == [["suspect"], ["good", "other"]]


def test_room_ends_with_the_requests_or_with_the_bytes() -> None:
    assert backlog_of(work(), work(), max_requests=3).room(Lane.ASYNC) == 1
    assert backlog_of(work(nbytes=50), max_bytes=50).room(Lane.ASYNC) == 0


def test_a_full_lane_takes_no_room_from_the_others() -> None:
    backlog = backlog_of(*(work(lane=Lane.BULK, nbytes=30) for _ in range(3)), max_requests=3, max_bytes=100)
    assert [backlog.room(lane) for lane in Lane] == [3, 3, 0]
    assert [backlog.half_empty(lane) for lane in Lane] == [True, True, False]


@given(st.lists(st.tuples(st.sampled_from(list(Lane)), st.integers(1, 100)), max_size=60))
def test_all_lanes_together_keep_to_the_bytes_but_for_the_last_request_of_each(
    arrivals: list[tuple[Lane, int]],
) -> None:
    backlog = backlog_of(max_bytes=1000)
    for lane, nbytes in arrivals:
        if backlog.room(lane):
            backlog.add(work(lane=lane, nbytes=nbytes))
    assert backlog.nbytes <= 1000 + 3 * 100


def test_expired_requests_leave_first_and_only_they() -> None:
    backlog = backlog_of(work("gone", expires=1.0), work("there", expires=3.0), work("dead", expires=1.5, alone=True))
    assert {each.request.id for each in backlog.take_expired(2.0)} == {"gone", "dead"}
    assert backlog.earliest_expiry == 3.0
    assert len(backlog) == 1


def test_dropping_a_partition_forgets_only_its_requests() -> None:
    leaving = PartitionLedger(TopicPartition("t", 1))
    backlog = backlog_of(work("stays"), work("goes", ledger=leaving), work("too", ledger=leaving, alone=True))
    assert backlog.drop([leaving]) == 2
    assert ids(backlog.take(0.0)) == ["stays"]


def test_the_oldest_of_what_is_left_is_told_after_a_batch_was_taken() -> None:
    backlog = backlog_of(work(arrived=1.0, expires=2.0), work(arrived=5.0, expires=9.0), rows=1, wait_s=1.0)
    backlog.take(1.0)
    backlog.rule = BatchRule(2, 10_000, 1.0)
    assert due(backlog, 5.0) == 6.0


def test_an_empty_backlog_has_nothing_to_take() -> None:
    assert due(backlog_of(), paused=True) == math.inf
    with pytest.raises(ValueError, match="empty"):
        backlog_of().take(0.0)


def test_intake_goes_on_once_half_of_the_requests_and_of_the_bytes_have_left() -> None:
    backlog = backlog_of(*(work(nbytes=10) for _ in range(4)), max_requests=4, max_bytes=40, rows=1)
    for expected in (False, False, True):
        assert backlog.half_empty(Lane.ASYNC) is expected
        backlog.take(0.0)
    assert not backlog_of(work(nbytes=30), max_requests=4, max_bytes=40).half_empty(Lane.ASYNC)


def test_ordered_requests_never_overtake_another_of_their_partition_whatever_their_buckets() -> None:
    other = PartitionLedger(TopicPartition("t", 1))
    backlog = backlog_of(
        work("a0", offset=0, bucket=1, expires=9.0),
        work("a1", offset=1, bucket=2, expires=1.0),
        work("a2", offset=2, bucket=1),
        work("b0", offset=0, bucket=1, ledger=other, tenant="t"),
        policy=BatchPolicy(preserve_ordering=True),
    )
    assert ids(backlog.take(0.0)) == ["a0", "b0"]
    assert all_ids(backlog) == ["a1", "a2"]


def test_ordered_batches_run_one_at_a_time() -> None:
    backlog = backlog_of(*(work() for _ in range(40)), policy=BatchPolicy(preserve_ordering=True))
    assert (due(backlog, idle=False), due(backlog)) == (math.inf, AT_ONCE)


def test_a_full_batch_for_a_busy_device_closes_just_in_time_to_be_assembled() -> None:
    backlog = backlog_of(*(work() for _ in range(32)))
    assert backlog.close_at(0.0, idle=False, intake_paused=False, free_at=5.0) == pytest.approx(4.998)


def deep(backlog: Backlog) -> float:
    """When a batch closes although one lies ready, on a device that will be free at 5.0."""
    return backlog.close_at(0.0, idle=False, intake_paused=False, free_at=5.0, deep=True)


def test_more_than_one_batch_lies_ready_only_where_runs_are_known_so_that_all_are_short() -> None:
    works = [work() for _ in range(32)]
    assert deep(backlog_of(*works)) == math.inf
    assert deep(backlog_of(*works, run_times=Takes(0.0002))) == pytest.approx(4.998)
    assert deep(backlog_of(*works, run_times=Takes(0.006))) == math.inf


def test_what_runs_alone_and_what_interactive_requests_might_have_to_wait_for_does_not_lie_ready_twice() -> None:
    times = Takes(0.0002)
    assert deep(backlog_of(work(alone=True), run_times=times)) == math.inf
    beside = backlog_of(*(work() for _ in range(40)), work(lane=Lane.INTERACTIVE, expires=9.0), run_times=times)
    beside.take(0.0)
    assert deep(beside) == math.inf
