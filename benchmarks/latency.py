"""Latency under open-loop load on Apache Kafka: `python -m benchmarks.latency [--model M] [--system NAME...]`.

What is measured. Each system (a variant of headrace, or the naive loop) serves alone. First its maximum: so many users
that it is always full, each with one request out (see kafka_load.py), on the same cores. Then requests arrive
independently of one another (Poisson) at shares of that maximum, whatever is still out, and a latency counts from the
moment at which a request was due, not from its sending. The first second of each load is warm-up.

- p50, p99, p99.9: of all requests; one that was not answered within 10 s of the last counts as infinite.
- misses: requests later than `--slo-ms`, with an error or unanswered.
- busy: seconds in which the device ran a batch (`headrace_run_seconds_sum`) over seconds of the load, a runner.
- late p99: how late the generator itself sent. Its CPU share of one core is in the JSON.

Ends with exit code 1 when headrace's P99 is above `--slo-ms` at some load, or more than 0.1 % of its requests missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.arena import System, headrace_system, naive_system, scratch_folder
from benchmarks.cluster import REPLY_PARTITIONS, REQUEST_PARTITIONS, Cluster
from benchmarks.kafka_load import KafkaLoad, Target
from benchmarks.latencies import Point, Summary, poisson, summary
from benchmarks.latency_report import finish
from benchmarks.load_tables import LIMIT_MS
from benchmarks.machine import Machine
from benchmarks.programs import HeadraceWorker, Served
from benchmarks.subjects import BATCHES, WAIT_MS, Subject, model_file, to_stderr
from benchmarks.variants import NAIVE, VARIANTS, able
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from producer_sdk.topics import Lane

SHARES = (0.25, 0.5, 0.75, 0.9)
USERS = {"mlp": 1024, "cls": 64, "magika": 64, "minilm": 128}
WARM_UP_S = 1.0
SEED = 7
PREFIX = "live"


class Wanted(Struct, frozen=True):
    """How long each load is, which there are, and the limit that decides on misses."""

    seconds: float
    shares: tuple[float, ...] = SHARES
    slo_ms: float = LIMIT_MS


def live_system(subject: Subject, servers: str, folder: Path, name: str, prefix: str = PREFIX) -> System:
    """A system on topics that nothing was left on; headrace on its interactive lane."""
    if name == NAIVE:
        return naive_system(subject, servers, prefix=f"{prefix}-naive")
    wait_ms = WAIT_MS[subject.name]
    return headrace_system(subject, servers, folder, VARIANTS[name], prefix, wait_ms, Lane.INTERACTIVE)


@asynccontextmanager
async def serving(servers: str, subject: Subject, system: System) -> AsyncIterator[Serving]:
    """The system's processes, with connections for loads on them; stopped at the end."""
    async with Cluster(servers) as cluster:
        await cluster.create(system.requests, REQUEST_PARTITIONS)
        await cluster.create(system.reply_to.topic, REPLY_PARTITIONS)
    programs = [system.make() for _ in range(system.workers)]
    try:
        for program in programs:
            await program.start()
        for program in programs:
            await program.ready()
        target = Target(system.requests, system.reply_to, system.form)
        async with KafkaLoad(servers, subject, target) as load:
            yield Serving(system, programs, load)
        for program in programs:
            await program.stop()
    finally:
        for program in programs:
            program.kill()


class Serving:
    """A running system; its loads come one after another."""

    def __init__(self, system: System, programs: Sequence[Served], load: KafkaLoad) -> None:
        self._system, self.load = system, load
        self._workers = [each for each in programs if isinstance(each, HeadraceWorker)]
        self.pids = [program.process.pid for program in programs]

    async def maximum(self, users: int, seconds: float) -> Point:
        """With so many users."""
        before = await self._ran_s()
        load = await self.load.by_users(users, WARM_UP_S + seconds)
        return self._point(None, summary(load.after(WARM_UP_S), seconds), before, await self._ran_s())

    async def at(self, share: float, per_s: float, seconds: float, limit_s: float) -> Point:
        """With Poisson arrivals, so many a second."""
        schedule = poisson(per_s, WARM_UP_S + seconds, SEED)
        before = await self._ran_s()
        load = await self.load.by_schedule(schedule)
        return self._point(share, summary(load.after(WARM_UP_S), seconds, limit_s), before, await self._ran_s())

    async def _ran_s(self) -> tuple[float, float]:
        """Seconds that all runners have run batches for, and now."""
        pages = [await worker.metrics() for worker in self._workers]
        return sum(page.get("headrace_run_seconds_sum", 0.0) for page in pages), time.perf_counter()

    def _point(
        self, share: float | None, found: Summary, before: tuple[float, float], after: tuple[float, float]
    ) -> Point:
        runners = self._system.runners
        busy = (after[0] - before[0]) / (after[1] - before[1]) / runners if self._workers else None
        return Point(self._system.name, share, found, busy)


async def measure(subject: Subject, servers: str, folder: Path, names: Sequence[str], wanted: Wanted) -> list[Point]:
    """The maximum and each share of it, of each system."""
    points = []
    for name in names:
        system = live_system(subject, servers, folder, name)
        async with serving(servers, subject, system) as running:
            to_stderr(f"{subject.name}, {name}: the maximum")
            highest = await running.maximum(USERS[subject.name], wanted.seconds)
            points.append(highest)
            for share in wanted.shares:
                to_stderr(f"{subject.name}, {name}: {share:.0%} of {highest.summary.per_s:,.0f}/s")
                per_s = share * highest.summary.per_s
                points.append(await running.at(share, per_s, wanted.seconds, wanted.slo_ms / 1000))
    return points


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.latency", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", choices=tuple(BATCHES), default="mlp")
    parser.add_argument("--system", action="append", choices=(NAIVE, *VARIANTS), help="default: naive and headrace")
    parser.add_argument("--share", action="append", type=float, help="of the maximum; default: 0.25 0.5 0.75 0.9")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load, after a second of warm-up")
    parser.add_argument("--slo-ms", type=float, default=LIMIT_MS, help="what P99 must hold; default: 300")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--plot", type=Path, help="draw the throughput-latency curves into this SVG file")
    given = parser.parse_args()
    names, left_out = able(tuple(given.system or (NAIVE, "headrace")))
    machine = Machine.here()
    wanted = Wanted(given.seconds, tuple(given.share or SHARES), given.slo_ms)
    with warm_kafka() as kafka, scratch_folder() as folder:
        subject = Subject.of(given.model, model_file(given.model, Path(folder)))
        points = run(measure(subject, kafka.bootstrap_servers, Path(folder), names, wanted))
    return finish(machine, subject.name, points, left_out, wanted.slo_ms, given.json, given.plot)


if __name__ == "__main__":
    sys.exit(main())
