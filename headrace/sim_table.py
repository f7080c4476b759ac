"""The results of a what-if as one table, and as JSON. Pure but for printing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins

from headrace.sim_case import Case
from headrace.sim_report import Share, Summary
from headrace.sim_trace import Trace

SETTINGS = {"max_batch_size": "batch", "max_wait_ms": "wait ms", "slo_ms": "slo ms", "replicas": "replicas",
            "workers": "workers"}  # fmt: skip
REQUESTS = ("of", "requests", "p50 ms", "p99 ms", "in time", "late", "expired", "refused")
DEVICE = ("busy", "rows", "rows/s")
WIDTH = 120  # a figure that is cut off is worse than a line that is folded


class Tried(Struct, frozen=True):
    """A case and what came of it."""

    case: Case
    summary: Summary


def document(trace: Trace, tried: Sequence[Tried]) -> dict[str, Any]:
    """All of it as JSON."""
    told = {"source": trace.source, "requests": len(trace.arrivals), "rows": trace.rows, "seconds": trace.seconds}
    return {"trace": told, "cases": [to_builtins(each) for each in tried]}


def heading(trace: Trace) -> str:
    """The line above the table."""
    rate = len(trace.arrivals) / trace.seconds if trace.seconds else 0.0
    return (
        f"{trace.source}: {len(trace.arrivals):,} requests, {trace.rows:,} rows, {trace.seconds:.1f} s, "
        f"{rate:,.1f} requests/s"
    )


def print_table(trace: Trace, tried: Sequence[Tried]) -> None:
    """A line for each case, below it one for each lane and tenant where there are several."""
    from rich.console import Console
    from rich.table import Table

    shown = _shown(tried)
    table = Table(*[SETTINGS[name] for name in shown], *REQUESTS, *DEVICE, box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
        column.no_wrap = True
    for each in tried:
        for cells in _lines(each, shown):
            table.add_row(*cells)
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(heading(trace), markup=False, highlight=False, soft_wrap=not console.is_terminal)
    console.print(table)


def _shown(tried: Sequence[Tried]) -> list[str]:
    """Settings that differ."""
    return [name for name in SETTINGS if len({getattr(each.case, name) for each in tried}) > 1]


def _lines(tried: Tried, shown: Sequence[str]) -> list[list[str]]:
    summary = tried.summary
    settings = [_setting(getattr(tried.case, name)) for name in shown]
    device = [f"{summary.busy:.0%}", f"{summary.mean_rows:.1f}", f"{summary.rows_per_s:,.0f}"]
    lines = [[*settings, *_requests("all", summary.all), *device]]
    for name, share in (*summary.lanes.items(), *summary.tenants.items()):
        lines.append([*[""] * len(settings), *_requests(name, share), *[""] * len(device)])
    return lines


def _requests(name: str, share: Share) -> list[str]:
    late = share.late + share.waiting
    percentiles = [_ms(share.p50_ms), _ms(share.p99_ms)]
    counts = [str(late), str(share.expired), str(share.refused)]
    return [name, str(share.requests), *percentiles, f"{share.in_time:.1%}", *counts]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _setting(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
