"""Ratios against stored ones: a regression is told from an improvement, on either side of a bound."""

from pathlib import Path

import pytest

from benchmarks.baselines import Baseline, Ratio, changes, load, ratios_of, store
from benchmarks.gates import Gate


@pytest.mark.parametrize(("at_least", "now", "worse"), [(True, 2.0, 0.5), (True, 4.5, -1 / 3), (False, 6.0, 1.0)])
def test_worse_is_less_where_more_is_wanted_and_more_where_less_is(at_least: bool, now: float, worse: float) -> None:
    (change,) = changes({"a": Ratio(now, at_least)}, {"a": Ratio(3.0, at_least)})
    assert change.worse == pytest.approx(worse)


def test_ratios_that_one_run_lacks_are_passed_over() -> None:
    assert changes({"new": Ratio(1.0, True)}, {"old": Ratio(1.0, True)}) == []


def test_what_is_stored_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "bench.json"
    store(file, Baseline("2 cores", ratios_of([Gate("drain", 2.34567, 2.5, True)])))
    assert load(file) == Baseline("2 cores", {"drain": Ratio(2.346, True)})


def test_no_file_is_no_baseline(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") is None
