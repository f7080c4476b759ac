"""The gateway's throughput, and what it adds to a round trip: `python -m benchmarks.gateway [--model M] [--seconds S]`.

What is measured. A worker (of heavy models two runners) and `headrace gateway` on one Kafka; `benchmarks.http_load`
sends requests of Open Inference Protocol v2, one row each, on connections that stay open, with tensors in JSON, then
binary, as raw as what other servers are sent. Closed loop: 64 and 256 connections, each with one request out, the
model's batch as large as there are connections (mlp) or the model's own. Idle: one connection. Beside it the same
worker through the SDK, one request out: the difference is what the gateway adds. Beside mosec, on the same model in the
same run, it stands in `python -m benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from benchmarks.arena import scratch_folder
from benchmarks.figures import GatewayFigures
from benchmarks.latencies import Summary, TooSlow
from benchmarks.machine import Machine
from benchmarks.over_http import headrace_over_http
from benchmarks.report import Report, finish
from benchmarks.subjects import BATCHES, ROWS_KEPT, Subject, model_file, to_stderr
from benchmarks.tensors_over_http import BinaryOipForm, HttpForm, OipForm, check
from benchmarks.variants import VARIANTS, Variant
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from producer_sdk import Client

CONNECTIONS = (64, 256)
FORMS: dict[str, HttpForm] = {"JSON": OipForm(), "binary": BinaryOipForm()}
IDLE_CALLS = 200
IDLE_S = 3.0


def variant_for(subject: Subject, connections: int) -> Variant:
    """The worker behind the gateway: mlp with batches of all connections; two runners for the others."""
    if subject.name == "mlp":
        return Variant("headrace", batch=max(64, connections))
    replicas = VARIANTS["headrace replicas 2"]
    return VARIANTS["headrace workers 2"] if replicas.lacking() else replicas


async def measure(servers: str, subject: Subject, folder: Path, seconds: float) -> list[GatewayFigures]:
    """Measure one model on a broker, in each form."""
    expected = subject.answers(ROWS_KEPT)
    closed: dict[str, dict[int, Summary]] = {name: {} for name in FORMS}
    idle: dict[str, Summary] = {}
    sdk_p50_ms = float("nan")
    for connections in CONNECTIONS:
        variant = variant_for(subject, connections)
        async with headrace_over_http(servers, subject, folder, variant, expected) as endpoint:
            if not idle:
                to_stderr(f"{subject.name}: idle, through the SDK and over HTTP")
                sdk_p50_ms = await _sdk_p50_ms(servers, f"http-{variant.batch or subject.batch}", subject)
            for name, form in FORMS.items():
                formed = replace(endpoint, form=form)
                check(await formed.answer(subject), form, expected)
                if name not in idle:
                    idle[name] = await formed.load(subject, 1, IDLE_S)
                to_stderr(f"{subject.name}: {connections} connections, {name}")
                closed[name][connections] = await formed.load(subject, connections, seconds)
    return [GatewayFigures(subject.name, name, closed[name], idle[name], sdk_p50_ms) for name in FORMS]


async def _sdk_p50_ms(servers: str, prefix: str, subject: Subject) -> float:
    times = []
    async with Client(servers, prefix=prefix) as client:
        await client.infer(subject.name, subject.row(0))
        for number in range(IDLE_CALLS):
            began = time.perf_counter()
            await client.infer(subject.name, subject.row(number))
            times.append(time.perf_counter() - began)
    return median(times) * 1000


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.gateway", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", action="append", choices=tuple(BATCHES), help="default: mlp")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, after a second of warm-up")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    machine, figures = Machine.here(), []
    with warm_kafka() as kafka, scratch_folder() as folder:
        for model in given.model or ("mlp",):
            subject = Subject.of(model, model_file(model, Path(folder)))
            try:
                figures.extend(run(measure(kafka.bootstrap_servers, subject, Path(folder), given.seconds)))
            except TooSlow as err:
                to_stderr(f"Not measured: {model} is {err}.")
    return finish(Report(machine, gateway=figures), given.json)


if __name__ == "__main__":
    sys.exit(main())
