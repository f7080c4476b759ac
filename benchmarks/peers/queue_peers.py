"""Peers on queues, one after another: a full topic drained, and latency at half of the slower one's rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from benchmarks.arena import NAIVE_PREFIX, Arena, System, naive_system, systems_of
from benchmarks.cluster import REPLY_PARTITION, Cluster
from benchmarks.gateway import variant_for
from benchmarks.latencies import Times, poisson, summary
from benchmarks.latency import SEED, WARM_UP_S, live_system, serving
from benchmarks.peers.catalogue import CELERY_WORKERS, FASTSTREAM, FASTSTREAM_BATCH, PACKAGE, inputs_of
from benchmarks.peers.celery_peer import CeleryPeer
from benchmarks.peers.environments import NotInstalled, interpreter
from benchmarks.peers.http_peers import HALF, Effort
from benchmarks.peers.rows import Row, Side
from benchmarks.peers.spec import Spec
from benchmarks.programs import ProgramError, Served
from benchmarks.records import NaiveForm, WrongReply
from benchmarks.subjects import Subject, to_stderr
from headrace.local_kafka import LocalKafka
from producer_sdk.topics import ReplyTo

ROWS = {"mlp": 60_000, "cls": 3_000, "minilm": 2_000}
FAULTS = (NotInstalled, ProgramError, WrongReply, OSError, ValueError)
NAIVE_BATCHES = (1, 64)


class QueueComparison:
    """One model over queues. Belongs to one event loop."""

    def __init__(self, kafka: LocalKafka, subject: Subject, folder: Path, effort: Effort, rows_share: float) -> None:
        self._kafka, self._servers = kafka, kafka.bootstrap_servers
        self._subject, self._folder, self._effort = subject, folder, effort
        self._rows_share = rows_share

    async def rows(self, wanted: tuple[str, ...]) -> list[Row]:
        """headrace's maximum, each peer's, and then all at the same load, by pairs."""
        async with Cluster(self._servers) as cluster:
            arena = Arena(self._kafka, cluster, self._subject, int(ROWS[self._subject.name] * self._rows_share))
            variant = variant_for(self._subject, 64).name
            (headrace,) = systems_of(self._subject, self._servers, self._folder, [variant])
            ours = await self._drain(arena, headrace)
            rows = [await self._kafka_row(arena, system, setup, ours) for system, setup in self._kafka_peers(wanted)]
        if "celery" in wanted:
            rows.append(await self._celery_row(ours))
        async with serving(self._servers, self._subject, self._live(variant)) as running:
            for place, row in enumerate(rows):
                if row.load_per_s is not None:
                    to_stderr(f"{row.model}, headrace: {row.load_per_s:,.0f}/s, as {row.peer} had")
                    load = await running.load.by_schedule(self._schedule(row.load_per_s))
                    rows[place] = replace(row, our_load=summary(load.after(WARM_UP_S), self._effort.seconds))
        return rows

    def _kafka_peers(self, wanted: tuple[str, ...]) -> list[tuple[Callable[[str], System], str]]:
        """A maker of each peer's system, by the prefix of its topics, and its setup; those that take one input only."""
        if len(self._subject.rows) > 1:
            return []
        peers: list[tuple[Callable[[str], System], str]] = []
        if "aiokafka" in wanted:
            peers += [(self._naive(batch), f"1 x {batch}") for batch in NAIVE_BATCHES]
        if "faststream" in wanted:
            peers.append((self._faststream, f"1 x {FASTSTREAM_BATCH[self._subject.name]}"))
        return peers

    def _naive(self, batch: int) -> Callable[[str], System]:
        def make(prefix: str) -> System:
            return naive_system(self._subject, self._servers, batch, prefix)

        return make

    def _faststream(self, prefix: str) -> System:
        python = interpreter("faststream", FASTSTREAM, to_stderr)
        requests, replies = f"{prefix}.{self._subject.name}", f"{prefix}.replies"
        spec = Spec(
            str(self._subject.file),
            inputs_of(self._subject),
            batch=FASTSTREAM_BATCH[self._subject.name],
            servers=self._servers,
            requests=requests,
            group=f"{requests}.faststream",
        )

        def make() -> Served:
            return Served(f"{PACKAGE}.faststream", python=python, environment=spec.variable())

        return System("faststream", requests, spec.group, ReplyTo(replies, REPLY_PARTITION), NaiveForm(), make)

    async def _kafka_row(self, arena: Arena, make: Callable[[str], System], setup: str, ours: Side) -> Row:
        row = Row("aiokafka loop", self._subject.name, setup, "Kafka", ours=ours)
        try:
            system = make(NAIVE_PREFIX)
            row = replace(row, peer="aiokafka loop" if system.name == "naive" else system.name)
            theirs = await self._drain(arena, system)
            per_s = HALF * min(ours.per_s, theirs.per_s)
            live = make(f"live-{row.peer.split()[0]}-{setup.split()[-1]}")
            async with serving(self._servers, self._subject, live) as running:
                load = await running.load.by_schedule(self._schedule(per_s))
        except FAULTS as err:
            to_stderr(f"{row.model}, {row.peer}: {err}")
            return replace(row, reason=str(err))
        found = summary(load.after(WARM_UP_S), self._effort.seconds)
        return replace(row, theirs=theirs, load_per_s=per_s, their_load=found)

    async def _celery_row(self, ours: Side) -> Row:
        row = Row("celery", self._subject.name, f"{CELERY_WORKERS} x 1", "Redis", ours=ours, note="a task a row")
        try:
            peer = CeleryPeer(self._subject, self._rows_share)
            to_stderr(f"{self._subject.name}, celery: a full queue")
            drains = [await peer.drain() for _ in range(self._effort.runs)]
            theirs = Side([per_s for per_s, _ in drains], drains[-1][1])
            per_s = HALF * min(ours.per_s, theirs.per_s)
            load = await peer.load(per_s, self._effort.seconds)
        except FAULTS as err:
            to_stderr(f"{row.model}, {row.peer}: {err}")
            return replace(row, reason=str(err))
        return replace(row, theirs=theirs, load_per_s=per_s, their_load=load)

    async def _drain(self, arena: Arena, system: System) -> Side:
        to_stderr(f"{self._subject.name}, {system.name}: a full topic")
        if await arena.fill(system):
            await arena.drain(system)
        drains = [(await arena.drain(system)).drain for _ in range(self._effort.runs)]
        return Side([drain.per_s for drain in drains], sorted(drain.cpu_us for drain in drains)[len(drains) // 2])

    def _live(self, variant: str) -> System:
        return live_system(self._subject, self._servers, self._folder, variant, "live-peers")

    def _schedule(self, per_s: float) -> Times:
        return poisson(per_s, WARM_UP_S + self._effort.seconds, SEED)
