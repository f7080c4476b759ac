"""The deadline study in small: what docs/batching.md promises of the deadline rule, on fixed seeds in virtual time."""

from pathlib import Path

import pytest

from benchmarks.deadline_study import charts, study, table
from benchmarks.plot import line_charts
from headrace.sim_load import Pattern

SMALL = {"schemes": ("headrace", "fixed", "fixed, drops"), "seeds": 1, "seconds": 3.0}


def in_time(pattern: Pattern, load: float) -> tuple[float, float, float]:
    """The share of requests in time with headrace, fixed batching, and one that does not run what is late anyway."""
    ours, fixed, drops = study((load,), (pattern,), **SMALL)  # type: ignore[arg-type]
    return ours.in_time, fixed.in_time, drops.in_time


@pytest.mark.parametrize("pattern", [Pattern.POISSON, Pattern.BURSTY])
def test_at_half_load_the_deadline_rule_is_never_worse(pattern: Pattern) -> None:
    ours, fixed, drops = in_time(pattern, 0.5)
    assert ours >= max(fixed, drops)


@pytest.mark.parametrize("load", [0.9, 0.95])
def test_poisson_arrivals_that_the_device_can_carry_are_in_time(load: float) -> None:
    ours, fixed, _ = in_time(Pattern.POISSON, load)
    assert ours >= max(fixed, 0.999)


@pytest.mark.parametrize("load", [0.9, 1.2])
def test_above_four_fifths_of_load_bursts_cost_clearly_fewer_deadlines(load: float) -> None:
    ours, fixed, drops = in_time(Pattern.BURSTY, load)
    assert ours > fixed + 0.20
    assert ours > drops + 0.05


def test_in_overload_most_requests_are_in_time_though_fixed_batching_is_late_with_all() -> None:
    ours, fixed, drops = in_time(Pattern.POISSON, 1.2)
    assert ours > 0.75
    assert ours > fixed + 0.30
    assert ours > drops + 0.05


def test_the_study_is_told_as_a_table_and_drawn(tmp_path: Path) -> None:
    points = study((0.5,), (Pattern.POISSON,), ("headrace", "batch 1"), seeds=1, seconds=0.5)
    line_charts(charts(points), tmp_path / "study.svg")
    assert table(points).splitlines()[2].startswith("| poisson | 50% | 100.0 |")
    assert "headrace" in (tmp_path / "study.svg").read_text("utf-8")
