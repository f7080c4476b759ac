"""Priority levels, and what becomes of requests that have waited too long."""

from typing import Any

import pytest
from made_works import AT_ONCE, all_ids, backlog_of, due, ids, work

from producer_sdk.errors import InvalidRequest
from workers.backlog import Backlog
from workers.queue_policy import priority_of
from workers.runners.policies import BatchPolicy, Overdue, QueuePolicy

LEVELS = BatchPolicy(priority_levels=3, default_priority=2)
MAY_SHORTEN = BatchPolicy(queue=QueuePolicy(5.0, Overdue.DROP, allow_timeout_override=True))


def overdue(what: Overdue) -> Backlog:
    policy = BatchPolicy(queue=QueuePolicy(5.0, what))
    return backlog_of(work("old", expires=90.0), work("fresh", arrived=4.0, expires=99.0), policy=policy)


@pytest.mark.parametrize(
    ("asked", "level"), [({}, 2), ({"priority": 0}, 2), ({"priority": 1}, 1), ({"priority": 9}, 2)]
)
def test_a_priority_that_is_not_there_means_the_default(asked: dict[str, Any], level: int) -> None:
    assert priority_of(LEVELS, asked) == level


@pytest.mark.parametrize("asked", ["high", 1.5, True, -1])
def test_a_priority_that_is_no_level_is_refused_by_name(asked: Any) -> None:
    with pytest.raises(InvalidRequest, match="parameter 'priority'"):
        priority_of(LEVELS, {"priority": asked})


@pytest.mark.parametrize("asked", ["soon", 1.5, True, -1])
def test_a_timeout_that_is_no_number_of_microseconds_is_refused(asked: Any) -> None:
    with pytest.raises(InvalidRequest, match="parameter 'timeout'"):
        priority_of(MAY_SHORTEN, {"timeout": asked})


def test_a_model_without_levels_or_overrides_keeps_those_parameters_to_itself() -> None:
    assert priority_of(BatchPolicy(), {"priority": "mine", "timeout": "too"}) == 0


def test_level_1_is_served_first() -> None:
    backlog = backlog_of(work("2", priority=2, expires=1.0), work("1", priority=1), policy=LEVELS)
    assert ids(backlog.take(0.0)) == ["1", "2"]


def test_an_overdue_request_runs_behind_all_others() -> None:
    backlog = overdue(Overdue.INCLUDE)
    assert backlog.next_change == 5.0
    assert backlog.take_hopeless(5.0, 5.0) == []
    assert backlog.next_change == 9.0
    assert all_ids(backlog, 5.0) == ["fresh", "old"]


def test_an_overdue_request_runs_by_itself_before_the_others() -> None:
    backlog = overdue(Overdue.SINGLY)
    backlog.take_hopeless(5.0, 5.0)
    assert due(backlog, 5.0, idle=False) == AT_ONCE
    assert [ids(backlog.take(5.0)), ids(backlog.take(5.0))] == [["old"], ["fresh"]]


def test_an_overdue_request_is_refused_and_only_it() -> None:
    backlog = overdue(Overdue.DROP)
    assert [each.request.id for each in backlog.take_hopeless(5.0, 5.0)] == ["old"]
    assert all_ids(backlog, 5.0) == ["fresh"]


def test_past_its_deadline_an_overdue_request_is_expired_wherever_it_waits() -> None:
    for what in (Overdue.INCLUDE, Overdue.SINGLY):
        backlog = overdue(what)
        backlog.take_hopeless(5.0, 5.0)
        assert [each.request.id for each in backlog.take_expired(90.0)] == ["old"]


@pytest.mark.parametrize(("timeout_us", "at"), [(1_000_000, 1.0), (60_000_000, 5.0), (0, 5.0)])
def test_a_request_may_shorten_its_timeout_and_not_lengthen_it(timeout_us: int, at: float) -> None:
    assert backlog_of(work(parameters={"timeout": timeout_us}), policy=MAY_SHORTEN).next_change == at


def test_a_timeout_is_none_of_the_requests_business_unless_the_model_says_so() -> None:
    policy = BatchPolicy(queue=QueuePolicy(5.0))
    assert backlog_of(work(parameters={"timeout": 1}), policy=policy).next_change == 5.0


def test_a_level_has_its_own_policy() -> None:
    policy = BatchPolicy(priority_levels=2, default_priority=1, queues={2: QueuePolicy(1.0, Overdue.DROP)})
    backlog = backlog_of(work("1", priority=1), work("2", priority=2), policy=policy)
    assert [each.request.id for each in backlog.take_hopeless(50.0, 50.0)] == ["2"]
