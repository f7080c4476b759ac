"""The steps that are timed by themselves lead from fetched bytes to a commit, in one haul after the other."""

import pytest

from benchmarks.cpu_by_step import measure


@pytest.mark.parametrize(("rows", "batch"), [(1, 64), (1, 1), (3, 8)])
def test_every_step_is_timed(rows: int, batch: int) -> None:
    by_step = measure(rows, batch, repeats=2)
    assert [step.partition(":")[0] for step in by_step] == (
        ["read", "decode", "batch", "place", "run", "reply", "publish", "finish", "commit"]
    )
    assert all(microseconds > 0 for microseconds in by_step.values())
