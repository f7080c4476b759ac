"""What batching gains under one limit: `python -m benchmarks.batch_gain [--model cls] [--model mlp] [--slo-ms 50]`.

For each model the highest rate of Poisson arrivals at which P99, counted from when each request was due, stays within
the limit: with batches of one row, and with dynamic batches. The rate is found by halving between 0 and the maximum of
the same worker. `cls` is a MobileNet of 0.6 MB for images of 3 x 48 x 192, the network of ResNet's kind that comes in a
package; on one core larger batches hardly make a convolution cheaper, so most of its gain is the path's. mlp shows
batches where they pay.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.arena import headrace_system, scratch_folder
from benchmarks.latencies import Point
from benchmarks.latency import USERS, serving
from benchmarks.load_tables import MOST_MISSES
from benchmarks.machine import Machine
from benchmarks.subjects import WAIT_MS, Subject, model_file, to_stderr
from benchmarks.variants import Variant
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from producer_sdk.topics import Lane

MODELS = ("cls", "mlp")
HALVINGS = 5


class Held(Struct, frozen=True):
    """The highest rate that held the limit, with batches of at most `batch` rows; None where none did."""

    model: str
    batch: int
    best: Point | None


async def highest(subject: Subject, servers: str, folder: Path, batch: int, seconds: float, slo_ms: float) -> Held:
    """Halve between 0 and the worker's maximum."""
    variant, prefix, wait_ms = Variant(f"batch {batch}", batch=batch), f"gain-{batch}", WAIT_MS[subject.name]
    system = headrace_system(subject, servers, folder, variant, prefix, wait_ms, Lane.INTERACTIVE)
    best: Point | None = None
    async with serving(servers, subject, system) as running:
        maximum = await running.maximum(USERS[subject.name], seconds)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            share = (low + high) / 2
            point = await running.at(share, share * maximum.summary.per_s, seconds, slo_ms / 1000)
            held = within(point, slo_ms)
            to_stderr(
                f"{subject.name}, batch {batch}: {point.summary.offered_per_s:,.0f}/s {'held' if held else 'missed'}"
            )
            if held:
                best, low = point, share
            else:
                high = share
    return Held(subject.name, batch, best)


def within(point: Point, slo_ms: float) -> bool:
    """Whether P99 held the limit and no error hid in the rest. Pure."""
    return point.summary.p99_ms <= slo_ms and point.summary.errors <= MOST_MISSES * point.summary.requests


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.batch_gain", description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--model", action="append", choices=MODELS, help="default: both; repeatable")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, after a second of warm-up")
    parser.add_argument("--slo-ms", type=float, default=50.0, help="what P99 must hold")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    machine, found = Machine.here(), list[Held]()
    with warm_kafka() as kafka, scratch_folder() as folder:
        for model in given.model or MODELS:
            subject = Subject.of(model, model_file(model, Path(folder)))
            for batch in (1, subject.batch):
                where = (kafka.bootstrap_servers, Path(folder))
                found.append(run(highest(subject, *where, batch, given.seconds, given.slo_ms)))
    console = Console()
    console.print(str(machine), highlight=False)
    console.print(table(found, given.slo_ms))
    if given.json is not None:
        figures = {"machine": machine, "slo_ms": given.slo_ms, "held": found}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    return 0


def table(found: list[Held], slo_ms: float) -> Table:
    """A row for each batch; the ratio stands beside the larger one."""
    shown = Table(title=f"Highest rate with P99 within {slo_ms:g} ms")
    for name in ("model", "batch", "req/s", "P99 ms", "busy", "of batch 1"):
        shown.add_column(name, justify="left" if name == "model" else "right")
    alone = {each.model: each.best for each in found if each.batch == 1}
    for each in found:
        if each.best is None:
            shown.add_row(each.model, str(each.batch), "none held")
            continue
        one, load = alone.get(each.model), each.best.summary
        ratio = f"{load.offered_per_s / one.summary.offered_per_s:.2f}" if one is not None else ""
        cells = (f"{load.offered_per_s:,.0f}", f"{load.p99_ms:.1f}", f"{each.best.busy or 0:.0%}", ratio)
        shown.add_row(each.model, str(each.batch), *cells)
    return shown


if __name__ == "__main__":
    sys.exit(main())
