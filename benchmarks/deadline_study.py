"""The share of requests answered within their deadline, by the deadline rule and by fixed batching.

`python -m benchmarks.deadline_study` runs in virtual time: `headrace.sim_engine` drives the worker's own backlog, and
what it is compared with, over the same arrivals. What is measured. One runner whose batches take 8 ms + 0.5 ms a row,
up to a tenth longer by chance; requests of one row; batches of at most 32 rows. Load is the requests' rate over the
most rows a second that full batches could run. Three of ten requests have a deadline of 60 ms from publication,
four of 150, three of 500. A point is the mean over twelve seeds, of 10 s each. Compared are:

- headrace: `workers/backlog.py`, with run times that it learns in the run itself;
- fixed: first in, first out, 32 rows or 10 ms (`benchmarks/fixed_batching.py`);
- fixed, drops: the same, which does not run a request whose deadline has passed;
- batch 1: a request a run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from msgspec import Struct, to_builtins

from benchmarks.fixed_batching import FixedBatching
from benchmarks.plot import Chart, line_charts
from headrace.sim_engine import Simulation
from headrace.sim_load import Load, Mix, Pattern, make_trace
from headrace.sim_report import Summary, summarize
from headrace.sim_times import Formula
from headrace.sim_trace import Trace
from workers.backlog import Backlog, usual_requests
from workers.batch import BatchRule
from workers.run_times import RunTimes

ROWS = 32
MAX_WAIT_S = 0.010
RUN_TIME = Formula(0.008, 0.0005, spread=0.1)
DEADLINES_S: Mix[float | None] = Mix((0.06, 0.15, 0.5), (3.0, 4.0, 3.0))
LOADS = tuple(percent / 100 for percent in range(50, 121, 10))
PATTERNS = (Pattern.POISSON, Pattern.BURSTY)
SEEDS = 12
SECONDS = 10.0
UNBOUNDED = 1 << 40
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "deadline-study.svg"

Scheme = Callable[[Trace], Summary]


class Point(Struct, frozen=True):
    """One scheme at one load: the share of requests in time, useful rows a second, mean rows of a batch."""

    pattern: Pattern
    load: float
    scheme: str
    in_time: float
    useful_rows_per_s: float
    mean_rows: float
    busy: float


def deadline_rule(trace: Trace) -> Summary:
    """headrace, with nothing known at the start."""
    times = RunTimes()
    backlog = Backlog(usual_requests(ROWS), UNBOUNDED, run_times=times)
    backlog.rule = BatchRule(ROWS, UNBOUNDED, MAX_WAIT_S)
    return summarize(Simulation(backlog, RUN_TIME, run_times=times, observer=times).run(trace.arrivals))


def fixed(trace: Trace, rows: int = ROWS, timeout_s: float = MAX_WAIT_S, *, drops: bool = False) -> Summary:
    scheduler = FixedBatching(rows, timeout_s, drops=drops)
    return summarize(Simulation(scheduler, RUN_TIME).run(trace.arrivals))


SCHEMES: Mapping[str, Scheme] = {
    "headrace": deadline_rule,
    "fixed": fixed,
    "fixed, drops": lambda trace: fixed(trace, drops=True),
    "batch 1": lambda trace: fixed(trace, rows=1, drops=True),
}


def study(
    loads: Sequence[float] = LOADS,
    patterns: Sequence[Pattern] = PATTERNS,
    schemes: Sequence[str] = tuple(SCHEMES),
    seeds: int = SEEDS,
    seconds: float = SECONDS,
) -> list[Point]:
    """Every scheme over the same traces, at each load of each pattern."""
    points = []
    for pattern in patterns:
        for load in loads:
            traces = [trace_of(load, pattern, seed, seconds) for seed in range(seeds)]
            points += [_point(pattern, load, name, [SCHEMES[name](trace) for trace in traces]) for name in schemes]
    return points


def trace_of(load: float, pattern: Pattern, seed: int, seconds: float) -> Trace:
    most = ROWS / RUN_TIME.mean_s(ROWS, ROWS)
    return make_trace(Load(load * most, seconds, pattern, deadlines_s=DEADLINES_S, seed=seed))


def _point(pattern: Pattern, load: float, scheme: str, summaries: Sequence[Summary]) -> Point:
    return Point(
        pattern,
        load,
        scheme,
        fmean(each.all.in_time for each in summaries),
        fmean(each.useful_rows_per_s for each in summaries),
        fmean(each.mean_rows for each in summaries),
        fmean(each.busy for each in summaries),
    )


def charts(points: Sequence[Point]) -> list[Chart]:
    """A chart a pattern: per cent in time over per cent of load."""
    found = []
    for pattern in dict.fromkeys(point.pattern for point in points):
        lines: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            if point.pattern is pattern:
                lines.setdefault(point.scheme, []).append((100 * point.load, 100 * point.in_time))
        found.append(Chart(f"Requests in time, {pattern} arrivals", "load, %", "in time, %", lines))
    return found


def table(points: Sequence[Point]) -> str:
    """Markdown: per cent of requests in time; a row a load, a column a scheme."""
    schemes = list(dict.fromkeys(point.scheme for point in points))
    lines = [f"| arrivals | load | {' | '.join(schemes)} |", "| --- " * (2 + len(schemes)) + "|"]
    rows: dict[tuple[Pattern, float], list[str]] = {}
    for point in points:
        rows.setdefault((point.pattern, point.load), []).append(f"{100 * point.in_time:.1f}")
    lines += [f"| {pattern} | {load:.0%} | {' | '.join(cells)} |" for (pattern, load), cells in rows.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.deadline_study", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each trace, in virtual time")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--plot", type=Path, help=f"write the picture to this file; the docs have {PICTURE.name}")
    given = parser.parse_args()
    points = study(seeds=given.seeds, seconds=given.seconds)
    print(table(points))
    if given.json:
        given.json.write_text(json.dumps(to_builtins(points), indent=1) + "\n", encoding="utf-8")
    if given.plot:
        line_charts(charts(points), given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
