"""How large a batch may be so that its members are in time, and whom to pass over when not all can be. Pure.

Earliest deadline first alone collapses under more load than the device takes: the first in line are always nearly late,
each allows but a tiny batch, and tiny batches make all the others late. So where the first ones ask for a small batch,
they get it only if everybody behind them is in time all the same; else the batch that answers most rows a second in
time is run, and who would be late in it is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from .work import Work

CLEARLY_BETTER = 1.1  # how much more a batch has to pass to be worth passing over more requests
_STEP = 1.5
_LEAST_S = 1e-9

RunTime = Callable[[int, float], float]  # seconds that a batch of so many rows, of such a cost, will run


class Plan(Struct, frozen=True, gc=False):
    """A batch to be gathered.

    Attributes:
        rows, cost: most of them.
        finish: when it ends, monotonic seconds; who has to be answered before is not in it.
    """

    rows: int
    cost: float
    finish: float


def plan(works: Sequence[Work], most_rows: int, start: float, run_s: RunTime, rows_per_s: float = 0.0) -> Plan | None:
    """The batch to run of those that wait, given in the order of their urgency, where not all can be in time.

    None where nobody can be. Of the `rows_per_s` that arrive, those that come during a small batch may want to go
    before some that wait already: a small batch is run only where there is time for them, too.
    """
    count = in_time(works, most_rows, start, run_s)
    rows, cost = _sums(works[:count])
    if count:
        takes_s, full_s = run_s(rows, cost), run_s(most_rows, most_rows * cost / rows)
        for_more_s = takes_s * rows_per_s * full_s / most_rows
        if _are_in_time(works[count:], most_rows, start + takes_s + for_more_s, run_s):
            return Plan(rows, cost, start + takes_s)
    return _most_a_second(works, max(1, rows), most_rows, start, run_s)


def in_time(works: Sequence[Work], most_rows: int, start: float, run_s: RunTime) -> int:
    """How many of the first ones can run together and all be in time."""
    rows, cost, tightest = 0, 0.0, math.inf
    for count, work in enumerate(works):
        rows += work.rows
        cost += work.cost
        tightest = min(tightest, work.due)
        if rows > most_rows or start + run_s(rows, cost) > tightest:
            return count
    return len(works)


def rows_within(most_s: float, most_rows: int, cost_of_row: float, run_s: RunTime) -> int:
    """The most rows, 0 to `most_rows`, that run in `most_s` seconds."""
    if run_s(most_rows, most_rows * cost_of_row) <= most_s:
        return most_rows
    fits, too_many = 0, most_rows
    while too_many - fits > 1:
        rows = (fits + too_many) // 2
        if run_s(rows, rows * cost_of_row) <= most_s:
            fits = rows
        else:
            too_many = rows
    return fits


def _sums(works: Sequence[Work]) -> tuple[int, float]:
    return sum(work.rows for work in works), sum(work.cost for work in works)


def _are_in_time(works: Sequence[Work], most_rows: int, start: float, run_s: RunTime) -> bool:
    """Whether all are, in full batches one after the other."""
    rows, cost, tightest = 0, 0.0, math.inf
    for work in works:
        if rows and rows + work.rows > most_rows:
            start += run_s(rows, cost)
            if start > tightest:
                return False
            rows, cost, tightest = 0, 0.0, math.inf
        rows += work.rows
        cost += work.cost
        tightest = min(tightest, work.due)
    return not rows or start + run_s(rows, cost) <= tightest


def _most_a_second(works: Sequence[Work], rows: int, most_rows: int, start: float, run_s: RunTime) -> Plan | None:
    total_rows, total_cost = _sums(works)
    cost_of_row = total_cost / total_rows
    best, best_pace = None, 0.0
    while True:
        takes_s = run_s(rows, rows * cost_of_row)
        finish = start + takes_s
        in_it = min(rows, sum(work.rows for work in works if work.due >= finish))
        pace = in_it / max(run_s(in_it, in_it * cost_of_row), _LEAST_S) if in_it else 0.0
        if pace > CLEARLY_BETTER * best_pace:
            best, best_pace = Plan(rows, rows * cost_of_row, finish), pace
        if rows >= most_rows:
            return best
        rows = min(most_rows, max(rows + 1, int(rows * _STEP)))
