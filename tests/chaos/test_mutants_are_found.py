"""The chaos suite fails for a worker that is broken in the ways that lose records.

With the commit moved before the reply's acknowledgement, and with "highest seen" in place of "highest completed",
the checker of `headrace verify` finds requests lost, in the same seeds in which it finds none with the worker as it is.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from chaos_mutants import MUTANTS
from chaos_simulation import simulate
from chaos_weather import LOSING

SEEDS = range(8)


@pytest.mark.chaos
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_worker_that_loses_records_is_found(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        runs = [simulate(seed, LOSING) for seed in SEEDS]
    assert any(run.verified_lost for run in runs)
    assert sum(bool(run.breaks) for run in runs) >= len(SEEDS) / 2


@pytest.mark.chaos
@pytest.mark.timeout(180)
def test_the_worker_as_it_is_loses_nothing_in_the_same_seeds() -> None:
    assert [(run.seed, run.breaks) for run in (simulate(seed, LOSING) for seed in SEEDS) if run.breaks] == []
