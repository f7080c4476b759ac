"""The figures as one table for people and as JSON for machines."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import baselines
from benchmarks.figures import Drained, Figures, GatewayFigures, RoundTrip, ratio
from benchmarks.gates import BOUNDS, Bound, Gate, drain_gates, round_trip_gate
from benchmarks.latencies import Point
from benchmarks.load_tables import LIMIT_MS, PLAIN_WIDTH, gateway_table, latency_table
from benchmarks.machine import Machine


@dataclass(frozen=True, slots=True)
class Report:
    """One run's figures. `left_out` has a sentence for each measurement that was not made."""

    machine: Machine
    drains: Sequence[Drained] = ()
    round_trip: RoundTrip | None = None
    gateway: Sequence[GatewayFigures] = ()
    loads: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    @property
    def gates(self) -> list[Gate]:
        last = [round_trip_gate(self.round_trip)] if self.round_trip else []
        return [gate for drained in self.drains for gate in drain_gates(drained)] + last

    @property
    def failed(self) -> list[str]:
        """What did not do what it should, a sentence each."""
        return [sentence for drained in self.drains for sentence in drained.failed]

    @property
    def open_bounds(self) -> list[Bound]:
        """Bounds of the measured models that nothing was measured for."""
        return [bound for drained in self.drains for bound in BOUNDS if bound.is_open(drained)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare a report with: the stored file, how much worse is too much, and whether to store anew."""

    file: Path
    threshold: float = baselines.THRESHOLD
    store: bool = False


def finish(report: Report, json_file: Path | None, comparison: Comparison | None = None) -> int:
    """Show the report, write it to the file if one is given.

    Returns the exit code: 1 when a gate does not hold, a system failed, or a ratio is much worse than the stored one.
    """
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print(str(report.machine), highlight=False)
    for table in _tables(report):
        console.print(table)
    for sentence in report.left_out:
        console.print(f"Not measured: {sentence}", highlight=False)
    for sentence in report.failed:
        console.print(f"FAILED: {sentence}", style="bold red", highlight=False, markup=False)
    if report.gates or report.open_bounds:
        console.print(gate_table(report.gates, report.open_bounds))
    regressed = comparison is not None and compare(console, str(report.machine), report.gates, comparison)
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    return 0 if all(gate.holds for gate in report.gates) and not report.failed and not regressed else 1


def _tables(report: Report) -> Iterator[Table]:
    if report.drains:
        yield _drain_table(report.drains)
    if report.round_trip:
        yield _round_trip_table(report.round_trip)
    if report.gateway:
        yield gateway_table(report.gateway)
    for model, points in report.loads.items():
        yield latency_table(model, points, LIMIT_MS)


def compare(console: Console, machine: str, gates: Sequence[Gate], comparison: Comparison) -> bool:
    """Show the changes since the stored run, or store this one; true when a ratio is much worse."""
    ratios, stored = baselines.ratios_of(gates), baselines.load(comparison.file)
    if comparison.store:
        baselines.store(comparison.file, baselines.Baseline(machine, ratios))
        console.print(f"Stored {len(ratios)} ratios in {comparison.file.name}.", highlight=False)
        return False
    if stored is None:
        console.print(f"No stored ratios for this machine: --store-baseline writes {comparison.file.name}.")
        return False
    found = baselines.changes(ratios, stored.ratios)
    console.print(baselines.table(found, comparison.threshold))
    return any(change.worse > comparison.threshold for change in found)


def as_json(report: Report) -> dict[str, object]:
    """Every run of every drain, the quantiles of the round trips, and the gates with their verdicts."""
    gates = [dataclasses.asdict(gate) | {"holds": gate.holds} for gate in report.gates]
    trips = {name: _quantiles_s(times) for name, times in _trips(report.round_trip)}
    figures: dict[str, object] = msgspec.to_builtins(report)
    return figures | {"round_trip": trips or None, "gates": gates}


def _trips(round_trip: RoundTrip | None) -> list[tuple[str, Sequence[float]]]:
    return [("raw echo", round_trip.echo_s), ("headrace", round_trip.headrace_s)] if round_trip else []


def _quantiles_s(times: Sequence[float]) -> dict[str, float]:
    return {"calls": len(times), "p50_s": median(times), "p99_s": quantiles(times, n=100)[-1]}


def _drain_table(drains: Sequence[Drained]) -> Table:
    table = Table(title="Drain of a full topic (median, least..most)")
    for name in ("model", "system", "rows/s", "whole", "CPU us", "Kafka us", "stolen", "batch", "% of raw", "x naive"):
        table.add_column(name, justify="left" if name in ("model", "system") else "right")
    for drained in drains:
        table.add_section()
        raw, plan = drained.raw, drained.plan
        none = ("",) * 4
        table.add_row(plan.model, f"raw, {plan.raw_processes} x", _spread(raw.per_s), *none, str(plan.batch), "100")
        for each in drained.systems:
            table.add_row("", *_cells(each), *_beside(drained, each))
    return table


def _cells(each: Figures) -> tuple[str, ...]:
    beside = f"{median(each.kafka_us):.1f}", f"{median(each.stolen):.1%}", f"{median(each.batch_rows):.1f}"
    return each.system, _spread(each.per_s), f"{median(each.whole_per_s):,.0f}", _spread(each.cpu_us, 1), *beside


def _beside(drained: Drained, each: Figures) -> tuple[str, str]:
    """Its share of raw, and how many times the naive loop it is."""
    naive = drained.system("naive")
    times = f"{ratio(each.per_s, naive.per_s):.2f}" if naive else ""
    return f"{100 * ratio(each.per_s, drained.raw_beside(each)):.1f}", times


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


def gate_table(gates: Sequence[Gate], left: Sequence[Bound] = (), title: str = "Gates of this stage") -> Table:
    """A row for each gate with its verdict; `left` were not measured."""
    table = Table(title=title)
    for name in ("gate", "ratio", "bound", ""):
        table.add_column(name, justify="right" if name in ("ratio", "bound") else "left")
    for gate in gates:
        sign = ">=" if gate.at_least else "<="
        verdict = "[green]holds[/green]" if gate.holds else "[bold red]FAILS[/bold red]"
        table.add_row(gate.name, f"{gate.ratio:.2f}", f"{sign} {gate.bound:.2f}", verdict)
    for bound in left:
        table.add_row(str(bound), "", f"{'>=' if bound.at_least else '<='} {bound.bound:.2f}", "not measured")
    return table


def _spread(values: Sequence[float], digits: int = 0) -> str:
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"
