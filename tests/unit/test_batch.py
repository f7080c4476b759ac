"""The batch rule: when a batch closes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.batch import BatchRule, Waiting, close_at

RULE = BatchRule(max_rows=32, max_bytes=1000, max_wait_s=0.01)
AT_ONCE = -math.inf


def due(
    waiting: Waiting, *, idle: bool = True, paused: bool = False, rule: BatchRule = RULE, run_s: float = 0.0
) -> float:
    return close_at(rule, waiting, idle=idle, intake_paused=paused, run_s=run_s)


@pytest.mark.parametrize("waiting", [Waiting(32, 10, 5.0), Waiting(1, 1000, 5.0), Waiting(1, 1, 5.0, alone=True)])
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


def test_a_tight_deadline_closes_the_batch_in_time_to_run_it() -> None:
    assert due(Waiting(1, 1, 5.0, expires=5.008), run_s=0.003) == pytest.approx(5.005)


@given(st.integers(1, 64), st.integers(0, 2000), st.floats(0, 100), st.booleans(), st.booleans())
def test_no_request_waits_longer_than_the_bound_on_an_idle_device(
    rows: int, nbytes: int, oldest: float, idle: bool, paused: bool
) -> None:
    at = due(Waiting(rows, nbytes, oldest), idle=idle, paused=paused)
    assert at <= oldest + RULE.max_wait_s if idle else at in (AT_ONCE, math.inf)
