"""The figures as one table for people and as JSON for machines."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Drained, RoundTrip
from benchmarks.gates import Gate, drain_gates, round_trip_gate
from benchmarks.machine import Machine

PLAIN_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Report:
    """One run's figures. `left_out` has a sentence for each measurement that was not made."""

    machine: Machine
    drains: Sequence[Drained] = ()
    round_trip: RoundTrip | None = None
    left_out: Sequence[str] = ()

    @property
    def gates(self) -> list[Gate]:
        last = [round_trip_gate(self.round_trip)] if self.round_trip else []
        return [gate for drained in self.drains for gate in drain_gates(drained)] + last


def finish(report: Report, json_file: Path | None) -> int:
    """Show the report, write it to the file if one is given; the exit code: 1 when a gate does not hold."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print(str(report.machine), highlight=False)
    if report.drains:
        console.print(_drain_table(report.drains))
    if report.round_trip:
        console.print(_round_trip_table(report.round_trip))
    for sentence in report.left_out:
        console.print(f"Not measured: {sentence}", highlight=False)
    if report.gates:
        console.print(_gate_table(report.gates))
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    return 0 if all(gate.holds for gate in report.gates) else 1


def as_json(report: Report) -> dict[str, object]:
    """Every run of every drain, the quantiles of the round trips, and the gates with their verdicts."""
    gates = [dataclasses.asdict(gate) | {"holds": gate.holds} for gate in report.gates]
    trips = {name: _quantiles_s(times) for name, times in _trips(report.round_trip)}
    return dataclasses.asdict(report) | {"round_trip": trips or None, "gates": gates}


def _trips(round_trip: RoundTrip | None) -> list[tuple[str, Sequence[float]]]:
    return [("raw echo", round_trip.echo_s), ("headrace", round_trip.headrace_s)] if round_trip else []


def _quantiles_s(times: Sequence[float]) -> dict[str, float]:
    return {"calls": len(times), "p50_s": median(times), "p99_s": quantiles(times, n=100)[-1]}


def _drain_table(drains: Sequence[Drained]) -> Table:
    table = Table(title="Drain of a full topic (median, least..most)")
    for name in ("model", "system", "inferences/s", "CPU us", "batch", "% of raw", "x naive"):
        table.add_column(name, justify="left" if name in ("model", "system") else "right")
    for drained in drains:
        raw, plan, naive = drained.raw, drained.plan, drained.system("naive")
        table.add_section()
        table.add_row(f"{plan.model} ({plan.workers} x)", "raw", _spread(raw.per_s), "", str(plan.batch), "100")
        for each in drained.systems:
            share = f"{100 * median(each.per_s) / median(raw.per_s):.1f}"
            times = f"{median(each.per_s) / median(naive.per_s):.2f}" if naive else ""
            cells = (_spread(each.per_s), _spread(each.cpu_us, 1), f"{median(each.batch_rows):.1f}", share, times)
            table.add_row("", each.system, *cells)
    return table


def _round_trip_table(round_trip: RoundTrip) -> Table:
    table = Table(title=f"Idle round trip, {len(round_trip.echo_s)} calls", min_width=PLAIN_WIDTH // 2)
    for name in ("system", "p50 ms", "p99 ms", "x echo"):
        table.add_column(name, justify="left" if name == "system" else "right")
    echo_p50_s = median(round_trip.echo_s)
    for name, times in _trips(round_trip):
        figures = _quantiles_s(times)
        p50_ms, p99_ms = figures["p50_s"] * 1000, figures["p99_s"] * 1000
        table.add_row(name, f"{p50_ms:.2f}", f"{p99_ms:.2f}", f"{figures['p50_s'] / echo_p50_s:.2f}")
    return table


def _gate_table(gates: Sequence[Gate]) -> Table:
    table = Table(title="Gates of this stage")
    for name in ("gate", "ratio", "bound", ""):
        table.add_column(name, justify="right" if name in ("ratio", "bound") else "left")
    for gate in gates:
        sign = ">=" if gate.at_least else "<="
        verdict = "[green]holds[/green]" if gate.holds else "[bold red]FAILS[/bold red]"
        table.add_row(gate.name, f"{gate.ratio:.2f}", f"{sign} {gate.bound:.2f}", verdict)
    return table


def _spread(values: Sequence[float], digits: int = 0) -> str:
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"
