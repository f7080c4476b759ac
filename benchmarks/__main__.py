"""`python -m benchmarks`: a short run of everything on one broker, tables, exit code 1 when a gate fails."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import baselines, gateway, latency, round_trip, worker
from benchmarks.arena import scratch_folder
from benchmarks.export_minilm import NotExported, minilm_file
from benchmarks.figures import Drained, Plan
from benchmarks.machine import Machine
from benchmarks.report import Comparison, Report, finish
from benchmarks.subjects import BATCHES, Subject, model_file, to_stderr
from benchmarks.variants import MEASURED, able
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from headrace.local_kafka import LocalKafka

LOADED = "mlp"  # the model whose latency and gateway a short run measures
LOAD_S = 4.0


def main() -> int:
    given = options().parse_args()
    machine = Machine.here()
    models, left_out = models_here(given.model or tuple(BATCHES))
    with warm_kafka() as kafka, scratch_folder() as folder:
        servers, at = kafka.bootstrap_servers, Path(folder)
        drains, lacking = drained(models, kafka, at, given.rows_share, given.runs)
        subject = Subject.of(LOADED, model_file(LOADED, at))
        to_stderr("mlp: round trips")
        trips = run(round_trip.measure(kafka, at, max(100, int(round_trip.CALLS * given.rows_share))))
        seconds = LOAD_S * max(given.rows_share, 0.25)
        over_http = run(gateway.measure(servers, subject, at, seconds))
        points = run(latency.measure(subject, servers, at, ("headrace",), latency.Wanted(seconds)))
    report = Report(machine, drains, trips, over_http, {LOADED: points}, [*left_out, *lacking])
    file = given.baseline or baselines.file_for("bench", machine.cores)
    return finish(report, given.json, Comparison(file, given.threshold, given.store_baseline))


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model", action="append", choices=tuple(BATCHES), help="drain this one; repeatable")
    parser.add_argument("--rows-share", type=float, default=0.6, help="of the rows of benchmarks.worker; default: 0.6")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--baseline", type=Path, help="stored ratios; default: those for as many cores")
    parser.add_argument("--threshold", type=float, default=baselines.THRESHOLD, help="share that is a regression")
    parser.add_argument("--store-baseline", action="store_true", help="store this run's ratios instead")
    return parser


def models_here(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The models that can be measured, and a sentence for each other."""
    try:
        minilm_file()
    except NotExported as reason:
        return [model for model in wanted if model != "minilm"], [str(reason)] if "minilm" in wanted else []
    return list(wanted), []


def drained(
    models: Sequence[str], kafka: LocalKafka, folder: Path, rows_share: float, runs: int
) -> tuple[list[Drained], list[str]]:
    """Every model's drains, and a sentence for each variant that cannot run here."""
    found, lacking = [], []
    for model in models:
        systems, missing = able(MEASURED[model])
        lacking += missing
        rows, processes = int(worker.ROWS[model] * rows_share), worker.RAW_PROCESSES[model]
        plan = Plan(model, rows, BATCHES[model], processes, runs, systems)
        found.append(asyncio.run(worker.measure(plan, kafka, folder, to_stderr)))
    return found, list(dict.fromkeys(lacking))


if __name__ == "__main__":
    sys.exit(main())
