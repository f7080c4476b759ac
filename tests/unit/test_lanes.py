"""Lanes share the device: by weight, never starving, and never at the price of a deadline of a higher one."""

from collections import Counter

import pytest
from made_works import AT_ONCE, Takes, backlog_of, due, work

from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.lanes import Choice, Standing, choose
from workers.runners.policies import LANES, BatchPolicy, LanePolicy

INTERACTIVE, ASYNC, BULK = Lane


def standing(lane: Lane, clock: float, *, oldest: float = 0.0, latest: float = 1e9, run_s: float = 1.0) -> Standing:
    return Standing(lane, clock, oldest, latest, run_s)


def served(backlog: Backlog, batches: int, *, bucket_of: dict[Lane, int]) -> list[Lane]:
    """Which lanes lead while there is always one more request of each."""
    order = []
    for at in range(batches):
        (lane,) = {each.lane for each in backlog.take(at / 1000).works}
        order.append(lane)
        backlog.add(work(lane=lane, bucket=bucket_of[lane], arrived=at / 1000))
    return order


def test_a_higher_lane_goes_first_where_none_has_been_served_more() -> None:
    assert choose([standing(INTERACTIVE, 5.0), standing(BULK, 5.0)], LANES, 0.0, True) == Choice(INTERACTIVE)


def test_the_lane_that_was_served_least_for_its_weight_is_next() -> None:
    assert choose([standing(INTERACTIVE, 6.0), standing(BULK, 5.0)], LANES, 0.0, True) == Choice(BULK)


def test_no_lane_goes_before_a_higher_one_that_would_be_late_for_it() -> None:
    tight = standing(INTERACTIVE, 6.0, latest=0.9)
    assert choose([tight, standing(BULK, 5.0, run_s=1.0)], LANES, 0.0, True) == Choice(INTERACTIVE)
    assert choose([tight, standing(BULK, 5.0, run_s=0.5)], LANES, 0.0, True) == Choice(BULK)


def test_a_lane_that_has_waited_too_long_goes_first_but_not_every_time() -> None:
    tight, aged = standing(INTERACTIVE, 0.0, oldest=99.5, latest=100.1), standing(BULK, 9.0, oldest=30.0)
    assert choose([tight, aged], LANES, 100.0, True) == Choice(BULK, aged=True)
    assert choose([tight, aged], LANES, 100.0, False) == Choice(INTERACTIVE)


def test_saturated_lanes_get_their_weights() -> None:
    buckets = {lane: place for place, lane in enumerate(Lane)}
    backlog = backlog_of(*(work(lane=lane, bucket=bucket) for lane, bucket in buckets.items()))
    counts = Counter(served(backlog, 210, bucket_of=buckets))
    assert counts[INTERACTIVE] == pytest.approx(160, abs=2)
    assert counts[ASYNC] == pytest.approx(40, abs=2)


def test_an_old_bulk_lane_takes_one_batch_in_five_from_an_interactive_one_and_no_more() -> None:
    lanes = {INTERACTIVE: LanePolicy(1e6, 1e6), ASYNC: LanePolicy(1.0, 1.0), BULK: LanePolicy(1.0, 0.0001)}
    buckets = {INTERACTIVE: 0, BULK: 1}
    backlog = backlog_of(*(work(lane=each, bucket=bucket) for each, bucket in buckets.items()),
                         policy=BatchPolicy(lanes=lanes))  # fmt: skip
    order = served(backlog, 50, bucket_of=buckets)
    assert Counter(order)[BULK] == 10


def test_lower_lanes_fill_up_an_interactive_batch_only_as_far_as_it_runs_barely_longer() -> None:
    interactive = [work("i", lane=INTERACTIVE) for _ in range(4)]
    bulk = [work("b", lane=BULK) for _ in range(40)]
    steep = backlog_of(*interactive, *bulk, run_times=Takes(0.0, 1.0)).take(0.0)
    flat = backlog_of(*interactive, *bulk, run_times=Takes(1.0, 0.001)).take(0.0)
    assert (steep.rows, flat.rows) == (4, 32)


def test_a_bulk_batch_is_short_while_interactive_requests_are_to_be_expected() -> None:
    backlog = backlog_of(work(lane=INTERACTIVE, bucket=1), run_times=Takes(1.0, 1.0), max_requests=1000)
    backlog.take(0.0)
    for _ in range(100):
        backlog.add(work(lane=BULK))
    assert due(backlog, 1.0, idle=False) > 1.0  # nor does it lie ready behind another
    assert due(backlog, 1.0) == AT_ONCE
    assert backlog.take(1.0).rows == 2
    assert backlog.take(20.0).rows == 32


def test_an_slo_says_how_long_bulk_batches_may_be() -> None:
    backlog = backlog_of(work(lane=INTERACTIVE, bucket=1), run_times=Takes(1.0, 1.0), policy=BatchPolicy(slo_ms=22_000))
    backlog.take(0.0)
    for _ in range(40):
        backlog.add(work(lane=BULK))
    assert backlog.take(1.0).rows == 9  # half of what is left beside a run of 2 s


def test_the_interactive_lane_is_full_by_itself_and_lies_ready() -> None:
    backlog = backlog_of(*(work(lane=INTERACTIVE) for _ in range(32)), run_times=Takes(1.0, 1.0))
    assert due(backlog, idle=False) == AT_ONCE
