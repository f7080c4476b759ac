"""Load on a running model through Kafka: `python -m benchmarks.load --model M (--users N | --rate R) [--seconds S]`.

As Locust words it: `--users 500 --spawn-rate 100 --seconds 600` has 500 users, 100 more each second, each with one
request out; measured are the seconds after the last has begun. `--rate` instead is an open loop: requests arrive
independently of one another (Poisson), and a latency counts from when each was due, so that a slow server cannot slow
the load down; `--requests N` ends it after about so many.

Without `--bootstrap-servers` it starts Kafka and a worker for one of the benchmarks' models. With it, the model must be
served there; requests hold one row made from what its workers announce, the answers are not compared with anything.
Prints P50, P99, the share of errors and the throughput; exit code 1 when P99 or the errors are over their limits.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.arena import scratch_folder
from benchmarks.kafka_load import KafkaLoad, Target
from benchmarks.latencies import Load, Summary, poisson, summary
from benchmarks.latency import WARM_UP_S, live_system, serving
from benchmarks.machine import Machine
from benchmarks.records import HeadraceForm
from benchmarks.served import Announced, announced_subject
from benchmarks.subjects import BATCHES, Subject, model_file
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from producer_sdk.topics import Lane, ReplyTo, Topics


class Shape(Struct, frozen=True):
    """What the load looks like; `rate` None means users."""

    seconds: float
    users: int
    spawn_per_s: float
    rate: float | None


async def send(load: KafkaLoad, shape: Shape, limit_s: float) -> Summary:
    """One load."""
    if shape.rate is None:
        return summary(await load.by_users(shape.users, shape.seconds, shape.spawn_per_s), shape.seconds, limit_s)
    seed = time.time_ns() % 2**32
    found: Load = await load.by_schedule(poisson(shape.rate, WARM_UP_S + shape.seconds, seed))
    return summary(found.after(WARM_UP_S), shape.seconds, limit_s)


async def on_a_deployment(servers: str, prefix: str, model: str, lane: Lane, shape: Shape, limit_s: float) -> Summary:
    """On workers that run already. Raises NotServed."""
    served: Announced = await announced_subject(servers, prefix, model, lane)
    topics = Topics(prefix)
    reply_to = ReplyTo(topics.replies, served.reply_partition)
    target = Target(topics.requests(model, lane), reply_to, HeadraceForm())
    async with KafkaLoad(servers, served.subject, target, checked=False, partitions=served.partitions) as load:
        return await send(load, shape, limit_s)


async def on_a_stack_of_its_own(model: str, servers: str, folder: Path, shape: Shape, limit_s: float) -> Summary:
    """On a worker that it starts."""
    subject = Subject.of(model, model_file(model, folder))
    system = live_system(subject, servers, folder, "headrace")
    async with serving(servers, subject, system) as running:
        return await send(running.load, shape, limit_s)


def main() -> int:
    given = options().parse_args()
    shape = shape_of(given.seconds, given.users, given.spawn_rate, given.rate, given.requests)
    lane, limit_s, machine = Lane(given.lane), given.slo_ms / 1000, Machine.here()
    if given.bootstrap_servers:
        where = (given.bootstrap_servers, given.prefix, given.model)
        found = run(on_a_deployment(*where, lane, shape, limit_s))
    else:
        with warm_kafka() as kafka, scratch_folder() as folder:
            found = run(on_a_stack_of_its_own(given.model, kafka.bootstrap_servers, Path(folder), shape, limit_s))
    return report(machine, given.model, found, given.slo_ms, given.most_errors, given.json)


def shape_of(seconds: float, users: int, spawn_per_s: float, rate: float | None, requests: int | None) -> Shape:
    """`requests` shortens an open load to as long as so many take. Pure."""
    if requests is not None and rate is not None:
        seconds = min(seconds, requests / rate)
    return Shape(seconds, users, spawn_per_s, rate)


def report(
    machine: Machine, model: str, found: Summary, slo_ms: float, most_errors: float, json_file: Path | None
) -> int:
    """Show and write one load; 1 when it missed a limit."""
    console = Console()
    console.print(str(machine), highlight=False)
    table = Table(title=f"{model}: {found.requests:,} requests")
    for name in ("req/s", "offered/s", "p50 ms", "p99 ms", "p99.9 ms", "errors", f"> {slo_ms:g} ms", "late p99 ms"):
        table.add_column(name, justify="right")
    errors = found.errors / found.requests
    times = (found.p50_ms, found.p99_ms, found.p999_ms)
    cells = [f"{value:.2f}" for value in times] + [f"{errors:.2%}", f"{found.misses:.2%}", f"{found.late_p99_ms:.2f}"]
    table.add_row(f"{found.per_s:,.0f}", f"{found.offered_per_s:,.0f}", *cells)
    console.print(table)
    holds = found.p99_ms <= slo_ms and errors <= most_errors and np.isfinite(found.p50_ms)
    console.print(f"P99 within {slo_ms:g} ms, errors within {most_errors:.1%}: {'holds' if holds else 'MISSED'}")
    if json_file is not None:
        figures = {"machine": machine, "model": model, "load": found}
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    return 0 if holds else 1


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.load", description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--model", default="mlp", help=f"without --bootstrap-servers one of {', '.join(BATCHES)}")
    parser.add_argument("--bootstrap-servers", help="a Kafka on which the model is served")
    parser.add_argument("--prefix", default="headrace")
    parser.add_argument("--lane", choices=[lane.value for lane in Lane], default=Lane.INTERACTIVE.value)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--spawn-rate", type=float, default=100.0, help="users that begin each second")
    parser.add_argument("--rate", type=float, help="an open loop of so many requests a second, instead of users")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, help="with --rate: end after about so many")
    parser.add_argument("--slo-ms", type=float, default=300.0, help="what P99 must hold")
    parser.add_argument("--most-errors", type=float, default=0.001, help="share of requests that may fail")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
