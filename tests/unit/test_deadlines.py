"""Batches that keep their members in time, and who is passed over or refused when not all can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_works import Takes, backlog_of, due, ids, work

from workers.deadlines import plan
from workers.work import Work

TAKES = Takes(5.0, 1.0)  # a row alone takes 6 s


def named(*expires: float) -> list[Work]:
    return [work(str(place), expires=at) for place, at in enumerate(expires)]


def test_a_batch_grows_as_long_as_its_tightest_member_stays_in_time() -> None:
    backlog = backlog_of(*named(8.1, 100.0, 100.0, 100.0, 100.0), run_times=TAKES)
    assert ids(backlog.take(0.0)) == ["0", "1", "2"]


def test_an_answer_is_given_the_time_to_reach_its_caller() -> None:
    waiting = named(8.0, 100.0, 100.0, 100.0, 100.0)
    assert ids(backlog_of(*waiting, run_times=TAKES).take(0.0)) == ["0", "1"]
    assert len(backlog_of(*named(6.0, 6.1), run_times=TAKES).take_hopeless(0.0, 0.0)) == 1


def test_where_no_run_time_is_known_nobody_is_taken_to_be_late() -> None:
    assert ids(backlog_of(*named(0.001, 0.001, 50.0)).take(0.0)) == ["0", "1", "2"]


def test_the_run_before_it_counts_where_the_device_is_not_free_yet() -> None:
    backlog = backlog_of(*named(8.1, 100.0, 100.0, 100.0), run_times=TAKES)
    assert ids(backlog.take(0.0, starts_at=1.0)) == ["0", "1"]


def test_the_wait_of_an_idle_device_ends_before_the_tightest_would_be_late() -> None:
    backlog = backlog_of(*named(8.0, 9.0), run_times=TAKES, wait_s=60.0)
    assert due(backlog) == pytest.approx(0.997)
    assert ids(backlog.take(due(backlog))) == ["0", "1"]


def test_a_small_batch_for_a_tight_one_is_run_where_the_others_are_in_time_all_the_same() -> None:
    backlog = backlog_of(*named(7.1, *[30.0] * 8), run_times=TAKES, rows=8)
    assert [len(ids(backlog.take(at))) for at in (0.0, 7.0)] == [2, 7]


def test_a_tight_one_is_passed_over_where_a_small_batch_would_make_many_late() -> None:
    backlog = backlog_of(*named(6.5, *[14.0] * 9), run_times=TAKES, rows=8)
    assert ids(backlog.take(0.0)) == [str(place) for place in range(1, 9)]


def test_one_that_is_late_in_any_case_still_runs_if_nothing_else_waits() -> None:
    assert ids(backlog_of(*named(1.0), run_times=TAKES).take(0.0)) == ["0"]


def test_who_cannot_be_in_time_even_alone_is_refused_once_run_times_are_known() -> None:
    backlog = backlog_of(*named(5.0, 9.0, 50.0), run_times=TAKES)
    assert [each.request.id for each in backlog.take_hopeless(0.0, 4.0)] == ["0", "1"]
    assert backlog.next_change > 4.0
    assert backlog_of(*named(5.0)).take_hopeless(0.0, 4.0) == []


def test_nothing_is_looked_for_before_somebody_may_be_hopeless() -> None:
    backlog = backlog_of(*named(20.0), run_times=TAKES)
    backlog.take_hopeless(20.0 - 6.1, 0.0)
    assert backlog.next_change == pytest.approx(13.998)
    assert [each.request.id for each in backlog.take_hopeless(14.0, 0.0)] == ["0"]


@given(st.lists(st.floats(0.0, 60.0), min_size=1, max_size=40), st.integers(1, 16))
def test_whoever_is_in_a_planned_batch_is_in_time(expires: list[float], most_rows: int) -> None:
    works = sorted(named(*expires), key=lambda each: each.expires or 0.0)
    planned = plan(works, most_rows, 0.0, lambda rows, cost: 5.0 + rows)
    if planned is None:
        assert min(6.0, max(expires)) == max(expires)
    else:
        assert 1 <= planned.rows <= most_rows
        assert planned.finish == 5.0 + planned.rows


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=40),
    st.integers(1, 16),
)
def test_no_batch_of_more_than_one_makes_a_member_late(requests: list[tuple[float, str]], most_rows: int) -> None:
    works = [work(str(place), expires=at, tenant=tenant) for place, (at, tenant) in enumerate(requests)]
    backlog = backlog_of(*works, run_times=TAKES, rows=most_rows)
    now = 0.0
    while len(backlog):
        backlog.take_expired(now)
        backlog.take_hopeless(now, now)
        if not len(backlog):
            break
        batch = backlog.take(now)
        now += 5.0 + batch.rows
        assert all(now <= (each.expires or 0.0) for each in batch.works)
