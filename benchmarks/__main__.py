"""`python -m benchmarks`: a short run of everything on one broker, one table, exit code 1 when a gate fails."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks import round_trip, worker
from benchmarks.arena import scratch_folder
from benchmarks.export_minilm import NotExported, minilm_file
from benchmarks.figures import Plan
from benchmarks.machine import Machine
from benchmarks.report import Report, finish
from benchmarks.subjects import BATCHES
from headrace.event_loop import run
from headrace.local_kafka import LocalKafka

REQUESTS = {"mlp": 60_000, "magika": 3_000, "minilm": 3_000}


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    machine, drains, left_out = Machine.here(), [], []
    models = list(BATCHES)
    try:
        minilm_file()
    except NotExported as reason:
        models.remove("minilm")
        left_out.append(str(reason))
    with LocalKafka(benchmark=True) as kafka, scratch_folder() as folder:
        for model in models:
            systems = worker.SYSTEMS if model == "mlp" else ("headrace",)
            plan = Plan(model, REQUESTS[model], BATCHES[model], worker.WORKERS[model], given.runs, systems)
            drains.append(asyncio.run(worker.measure(plan, kafka.bootstrap_servers, Path(folder), worker.to_stderr)))
        worker.to_stderr("mlp: round trips")
        trips = run(round_trip.measure(kafka.bootstrap_servers, Path(folder)))
    return finish(Report(machine, drains, trips, left_out), given.json)


if __name__ == "__main__":
    sys.exit(main())
