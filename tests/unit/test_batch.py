"""The batch rule: when a batch closes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.batch import NO_OUTLOOK, BatchRule, Outlook, Waiting, close_at, rows_to_take

RULE = BatchRule(max_rows=32, max_bytes=1000, max_wait_s=0.01, max_cost=500.0)
PREFERRED = BatchRule(32, 1000, 0.01, preferred_rows=(8, 16))
AT_ONCE = -math.inf


def due(
    waiting: Waiting,
    *,
    idle: bool = True,
    paused: bool = False,
    rule: BatchRule = RULE,
    outlook: Outlook = NO_OUTLOOK,
) -> float:
    return close_at(rule, waiting, idle=idle, intake_paused=paused, outlook=outlook)


@pytest.mark.parametrize("waiting", [Waiting(32, 10, 5.0), Waiting(1, 1000, 5.0), Waiting(1, 1, 5.0, cost=500.0)])
@pytest.mark.parametrize("idle", [True, False])
def test_a_full_batch_closes_at_once_even_while_the_device_is_busy(waiting: Waiting, idle: bool) -> None:
    assert due(waiting, idle=idle) == AT_ONCE


def test_a_busy_device_keeps_gathering() -> None:
    assert due(Waiting(31, 999, 5.0), idle=False) == math.inf


def test_an_idle_device_waits_until_the_oldest_has_waited_long_enough() -> None:
    assert due(Waiting(1, 1, 5.0)) == 5.01


def test_no_wait_takes_what_is_there() -> None:
    assert due(Waiting(1, 1, 5.0), rule=BatchRule(32, 1000, 0.0)) == AT_ONCE


def test_waiting_cannot_help_while_intake_is_paused() -> None:
    assert due(Waiting(1, 1, 5.0), paused=True) == AT_ONCE


def test_a_tight_deadline_closes_the_batch_a_millisecond_before_its_answer_would_be_late() -> None:
    assert due(Waiting(1, 1, 5.0, expires=5.008), outlook=Outlook(run_s=0.003)) == pytest.approx(5.002)


def test_a_preferred_size_closes_at_once_on_an_idle_device_and_the_largest_reached_is_taken() -> None:
    assert due(Waiting(9, 1, 5.0), rule=PREFERRED) == AT_ONCE
    assert [rows_to_take(PREFERRED, rows) for rows in (7, 9, 16, 40)] == [32, 8, 16, 16]


def test_a_size_that_is_not_preferred_goes_on_to_the_delay_rule() -> None:
    assert due(Waiting(7, 1, 5.0), rule=PREFERRED) == 5.01


def test_a_busy_device_gathers_up_to_the_largest_preferred_size() -> None:
    assert due(Waiting(15, 1, 5.0), rule=PREFERRED, idle=False) == math.inf
    assert due(Waiting(16, 1, 5.0), rule=PREFERRED, idle=False) == AT_ONCE


@pytest.mark.parametrize(
    ("rows_per_s", "at"),
    [
        (100.0, AT_ONCE),  # the next one comes after 10 ms, when this one could be done
        (10_000.0, 5.01),  # the next one comes after 0.1 ms, and would sit out 5 ms otherwise
        (0.0, 5.01),  # nobody knows
    ],
)
def test_an_idle_device_waits_only_for_company_that_comes_soon_enough(rows_per_s: float, at: float) -> None:
    outlook = Outlook(run_s=0.005, longer_s=0.0001, rows_per_s=rows_per_s)
    assert due(Waiting(1, 1, 5.0), outlook=outlook) == at


@given(
    st.integers(1, 64), st.integers(0, 2000), st.floats(0, 100), st.booleans(), st.booleans(),
    st.floats(0, 1), st.floats(0, 1e5),
)  # fmt: skip
def test_no_request_waits_longer_than_the_bound_on_an_idle_device(
    rows: int, nbytes: int, oldest: float, idle: bool, paused: bool, run_s: float, rows_per_s: float
) -> None:
    outlook = Outlook(run_s, run_s / 10, rows_per_s)
    at = due(Waiting(rows, nbytes, oldest), idle=idle, paused=paused, outlook=outlook)
    assert at <= oldest + RULE.max_wait_s if idle else at in (AT_ONCE, math.inf)
