"""Loads as tables: by share of the maximum, and of the gateway by connections."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.figures import GatewayFigures
from benchmarks.latencies import Point

PLAIN_WIDTH = 120
LIMIT_MS = 300.0
MOST_MISSES = 0.001


def holds(point: Point, slo_ms: float) -> bool:
    """Whether a load held the limit; the maximum has none: there, who waits is how it is kept busy."""
    return point.share is None or (point.summary.p99_ms <= slo_ms and point.summary.misses <= MOST_MISSES)


def latency_table(model: str, points: Sequence[Point], slo_ms: float) -> Table:
    """A row for each load."""
    shown = Table(title=f"{model}: latency by load, from when each request was due")
    columns = ("system", "load", "req/s", "p50 ms", "p99 ms", "p99.9 ms", f"> {slo_ms:g} ms", "busy", "late p99", "")
    for name in columns:
        shown.add_column(name, justify="left" if name in ("system", "load") else "right")
    before = None
    for point in points:
        if point.system != before:
            shown.add_section()
        found, before = point.summary, point.system
        load = "max" if point.share is None else f"{point.share:.0%}"
        times = [f"{value:.2f}" for value in (found.p50_ms, found.p99_ms, found.p999_ms)]
        misses = "" if point.share is None else f"{found.misses:.2%}"
        busy = "" if point.busy is None else f"{point.busy:.0%}"
        verdict = "" if holds(point, slo_ms) else "[bold red]MISSED[/bold red]"
        row = (load, f"{found.per_s:,.0f}", *times, misses, busy, f"{found.late_p99_ms:.2f}", verdict)
        shown.add_row(point.system, *row)
    return shown


def gateway_table(figures: Sequence[GatewayFigures]) -> Table:
    """A row for each load."""
    shown = Table(title="Gateway: closed loop, one row a request")
    for name in ("model", "tensors"):
        shown.add_column(name)
    for name in ("connections", "req/s", "p50 ms", "p99 ms", "errors", "generator's CPU", "added ms"):
        shown.add_column(name, justify="right")
    for each in figures:
        shown.add_section()
        for connections, found in ({1: each.idle} | each.closed).items():
            times = (f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}", str(found.errors), f"{found.cpu_share:.0%}")
            added = f"{each.added_ms:.2f}" if connections == 1 else ""
            shown.add_row(each.model, each.form, str(connections), f"{found.per_s:,.0f}", *times, added)
    return shown
