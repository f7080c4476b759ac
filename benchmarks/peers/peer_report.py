"""The comparison as a table that says where headrace is behind, as JSON, and against the stored ratios."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.machine import Machine
from benchmarks.peers.rows import Row, Side, gates, ratios
from benchmarks.report import Comparison, compare, gate_table

WIDTH = 150  # of a file: eleven columns


def finish(
    machine: Machine, rows: Sequence[Row], left_out: Sequence[str], comparison: Comparison, json_file: Path | None
) -> int:
    """Show and write; the exit code: 1 when a ratio is much worse than the stored one.

    The gateway's gates are printed and decide on nothing: they belong to a later stage.
    """
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(str(machine), highlight=False)
    console.print(table(rows))
    for row in rows:
        if row.reason is not None:
            console.print(f"Not measured: {row.model}, {row.peer}: {row.reason}", highlight=False, markup=False)
        if row.no_load is not None:
            console.print(f"No latency: {row.model}, {row.peer}: {row.no_load}", highlight=False, markup=False)
    for sentence in left_out:
        console.print(f"Not measured: {sentence}", highlight=False)
    if found := gates(rows):
        console.print(gate_table(found, title="Gates of the gateway's stage"))
    regressed = compare(console, str(machine), ratios(rows), comparison)
    if json_file is not None:
        figures = {"machine": machine, "rows": rows, "gates": found}
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    return 1 if regressed else 0


def table(rows: Sequence[Row]) -> Table:
    """A row for each peer and model: theirs, headrace's, and headrace over theirs."""
    shown = Table(title="headrace / peer: maximum, and latency at the same load (half of the lower maximum)")
    columns = ("model", "peer", "set up", "theirs/s", "ours/s", "ratio", "load/s", "p50 ms", "ratio", "p99 ms", "ratio")
    for name in (*columns, "headrace is"):
        shown.add_column(name, justify="left" if name in ("model", "peer", "set up", "headrace is") else "right")
    model = None
    for row in rows:
        if row.model != model:
            shown.add_section()
        model = row.model
        name = f"{row.peer} ({row.over})"
        if row.reason is not None:
            shown.add_row(row.model, name, row.setup, *[""] * 8, "not measured")
            continue
        verdict = f"[bold red]behind in {row.behind}[/bold red]" if row.behind else "[green]ahead[/green]"
        cells = (_rate(row.theirs), _rate(row.ours), _ratio(row.throughput), f"{row.load_per_s or 0:,.0f}")
        shown.add_row(row.model, name, row.setup, *cells, *_times(row, "p50_ms"), *_times(row, "p99_ms"), verdict)
    return shown


def _rate(side: Side | None) -> str:
    return "" if side is None else f"{side.per_s:,.0f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _times(row: Row, quantile: str) -> tuple[str, str]:
    """Theirs and ours, and the ratio."""
    if row.their_load is None or row.our_load is None:
        return "", ""
    theirs, ours = getattr(row.their_load, quantile), getattr(row.our_load, quantile)
    return f"{theirs:.1f} / {ours:.1f}", _ratio(row.latency(quantile))
