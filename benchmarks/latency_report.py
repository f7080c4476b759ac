"""Loads as a table, as JSON, as curves, and the verdict on the limit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.latencies import Point
from benchmarks.load_tables import MOST_MISSES, PLAIN_WIDTH, holds, latency_table
from benchmarks.machine import Machine
from benchmarks.plot import Chart, line_charts
from benchmarks.variants import NAIVE


def finish(
    machine: Machine,
    model: str,
    points: Sequence[Point],
    left_out: Sequence[str],
    slo_ms: float,
    json_file: Path | None,
    plot_file: Path | None,
) -> int:
    """Show, write and draw; the exit code: 1 when headrace missed the limit."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print(str(machine), highlight=False)
    console.print(latency_table(model, points, slo_ms))
    for sentence in left_out:
        console.print(f"Not measured: {sentence}", highlight=False)
    missed = [point for point in points if not holds(point, slo_ms)]
    ours = [point for point in missed if point.system != NAIVE]
    verdict = f"[bold red]MISSED[/bold red] at {len(ours)} loads" if ours else "[green]holds[/green]"
    console.print(f"P99 within {slo_ms:g} ms and misses below {MOST_MISSES:.1%}: {verdict}")
    if json_file is not None:
        figures = {"machine": machine, "model": model, "slo_ms": slo_ms, "points": points}
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    if plot_file is not None:
        line_charts(curves(model, points), plot_file)
    return 1 if ours else 0


def curves(model: str, points: Sequence[Point]) -> list[Chart]:
    """P50 and P99 over the rate, a line a system."""
    systems = list(dict.fromkeys(point.system for point in points))
    charts = []
    for name in ("p50_ms", "p99_ms"):
        lines = {}
        for system in systems:
            own = [point for point in points if point.system == system and point.share is not None]
            lines[system] = sorted((each.summary.offered_per_s, getattr(each.summary, name)) for each in own)
        title = f"{model}: {name[:3].upper()} by arrivals (Poisson)"
        charts.append(Chart(title, "requests a second", "ms", lines, log_y=True))
    return charts
