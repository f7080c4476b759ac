"""What a load amounts to: from when requests were due, with what was never answered in it."""

import json
import math

import numpy as np
import pytest
from msgspec import to_builtins

from benchmarks.batch_gain import within
from benchmarks.fairness_report import Figures
from benchmarks.large_payloads import counts_for
from benchmarks.latencies import Load, Point, Summary, TooSlow, poisson, summary
from benchmarks.load import shape_of
from benchmarks.load_tables import holds


def steady(count: int, latency_s: float = 0.01, errors: int = 0) -> Load:
    """A request every 0.1 s, each sent 1 ms late."""
    due = [0.1 * place for place in range(count)]
    return Load.of(due, [at + 0.001 for at in due], [at + latency_s for at in due], 0.0, errors, 0.1)


def test_a_latency_counts_from_when_the_request_was_due_not_from_its_sending() -> None:
    load = Load.of([10.0], [10.4], [10.5], zero=10.0, errors=0, cpu_share=0.0)
    assert summary(load, 1.0).p50_ms == pytest.approx(500)
    assert summary(load, 1.0).late_p99_ms == pytest.approx(400)


def test_a_request_that_was_never_answered_is_an_infinite_latency_and_a_miss() -> None:
    load = Load.of([0.0, 0.1], [0.0, 0.1], [0.01, None], 0.0, 0, 0.0)
    found = summary(load, 1.0, limit_s=0.5)
    assert (found.p99_ms, found.misses) == (math.inf, 0.5)


def test_an_error_reply_is_a_miss_however_quick() -> None:
    assert summary(steady(10, errors=1), 1.0, limit_s=0.5).misses == pytest.approx(0.1)


def test_the_warm_up_is_left_out() -> None:
    due = [0.0, 0.5, 1.0, 1.5]
    load = Load.of(due, due, [5.0, 5.0, 1.01, 1.51], 0.0, 0, 0.0).after(1.0)
    found = summary(load, 1.0)
    assert (found.requests, found.p99_ms) == (2, pytest.approx(10))


def test_the_rate_counts_the_answers_of_the_measured_seconds() -> None:
    assert summary(steady(20, latency_s=0.55), 1.0).per_s == pytest.approx(5)


def test_a_load_without_a_request_is_no_figure() -> None:
    with pytest.raises(TooSlow, match=r"too slow to measure: 0 requests in 4 s"):
        summary(Load.of([-1.0], [-1.0], [None], 0.0, 0, 0.0), 4.0)


def test_poisson_arrivals_have_the_rate_and_stay_within_the_time() -> None:
    moments = poisson(1000.0, 10.0, seed=1)
    assert len(moments) == pytest.approx(10_000, rel=0.05)
    assert moments[-1] < 10.0
    assert np.all(np.diff(moments) >= 0)


def test_at_a_rate_of_0_nothing_is_due() -> None:
    assert len(poisson(0.0, 10.0, seed=1)) == 0


def test_poisson_arrivals_are_as_irregular_as_chance() -> None:
    gaps = np.diff(poisson(1000.0, 10.0, seed=1))
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1.0, rel=0.1)


def point(p99_ms: float, misses: float, share: float | None = 0.5, errors: int = 0) -> Point:
    return Point("headrace", share, Summary(100, 100, 1000, 1, p99_ms, p99_ms, misses, errors, 0, 0), 0.9)


@pytest.mark.parametrize(("p99_ms", "misses", "verdict"), [(300, 0.001, True), (301, 0.0, False), (10, 0.002, False)])
def test_a_load_holds_the_limit_by_p99_and_by_misses(p99_ms: float, misses: float, verdict: bool) -> None:
    assert holds(point(p99_ms, misses), 300) is verdict


def test_the_maximum_itself_is_held_to_no_limit() -> None:
    assert holds(point(9_999, 1.0, share=None), 300)


def test_errors_do_not_hide_behind_a_quick_p99() -> None:
    assert within(point(10, 0.0, errors=1), 50)
    assert not within(point(10, 0.0, errors=2), 50)


def test_a_count_of_requests_shortens_an_open_load() -> None:
    assert shape_of(60, 1, 1, rate=100, requests=1000).seconds == 10
    assert shape_of(5, 1, 1, rate=100, requests=1000).seconds == 5


@pytest.mark.parametrize(
    ("due_s", "counts"),
    [(0.0, None), (17.0, None), (20.2, None), (20.5, False), (24.9, False), (25.4, None), (25.6, True), (30.7, False)],
)
def test_small_requests_count_for_every_second_window_after_the_warm_up_and_its_first_moment(
    due_s: float, counts: bool | None
) -> None:
    assert counts_for(due_s) is counts


def test_figures_made_of_numpys_numbers_can_be_written_as_json() -> None:
    figures = Figures.of(poisson(100.0, 10.0, seed=1))
    assert json.loads(json.dumps(to_builtins(figures))) == to_builtins(figures)
