"""One model on one broker: both systems' topics filled once, then drained as often as asked."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import REPLY_PARTITION, REPLY_PARTITIONS, REQUEST_PARTITIONS, Cluster
from benchmarks.drain import Drain, watch
from benchmarks.others import Others
from benchmarks.programs import HeadraceWorker, Program, Served
from benchmarks.records import Form, HeadraceForm, NaiveForm, check_answers, request_id
from benchmarks.subjects import ROWS_KEPT, Subject
from benchmarks.variants import COLUMNAR_ROWS, NAIVE, VARIANTS, Variant
from benchmarks.warm_kafka import settle
from headrace.local_kafka import LocalKafka
from producer_sdk.topics import Lane, ReplyTo, Topics

CHECKED_REPLIES = 200
HEADRACE_PREFIXES = {1: "bench", COLUMNAR_ROWS: "bench-columnar"}  # rows a record: topics of their own
NAIVE_PREFIX = "naive"
MAX_WAIT_MS = 10.0  # headrace's default


@dataclass(frozen=True, slots=True)
class System:
    """What is measured: its topics, its form of records, and how to start one process of it."""

    name: str
    requests: str
    group: str
    reply_to: ReplyTo
    form: Form
    make: Callable[[], Served]
    rows_a_record: int = 1
    workers: int = 1
    runners: int = 1  # of all workers
    librdkafka: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One drain, its rates and costs a row, and the mean rows of a batch in it."""

    drain: Drain
    batch_rows: float


def headrace_system(
    subject: Subject,
    servers: str,
    folder: Path,
    variant: Variant,
    prefix: str | None = None,
    max_wait_ms: float = MAX_WAIT_MS,
    lane: Lane = Lane.ASYNC,
) -> System:
    """headrace's worker; writes a model directory below `folder`. `prefix` None is that of topics that are drained."""
    batch = variant.batch or subject.batch
    models = folder / f"models-{subject.name}-{batch}-{max_wait_ms:g}"
    if not models.exists():
        subject.write_directory(models, max_wait_ms, batch)
    topics = Topics(prefix or HEADRACE_PREFIXES[variant.rows_a_record])

    def make() -> Served:
        return HeadraceWorker(servers, models, subject.name, topics.prefix, variant.flags)

    return System(
        variant.name,
        topics.requests(subject.name, lane),
        topics.group(subject.name),
        ReplyTo(topics.replies, REPLY_PARTITION),
        HeadraceForm(variant.rows_a_record),
        make,
        variant.rows_a_record,
        variant.workers,
        variant.workers * variant.replicas,
        variant.librdkafka,
    )


def naive_system(subject: Subject, servers: str, batch: int | None = None, prefix: str = NAIVE_PREFIX) -> System:
    """The naive loop; `batch` None is the subject's."""
    requests = group = f"{prefix}.{subject.name}"
    words = (subject.name, str(subject.file), str(batch or subject.batch), requests, group)

    def make() -> Served:
        return Served("benchmarks.naive", servers, *words)

    return System(NAIVE, requests, group, ReplyTo(f"{prefix}.replies", REPLY_PARTITION), NaiveForm(), make)


class WrongCount(Exception):
    """There are more replies than requests: something ran twice."""


class Arena:
    """Drains of `rows` single rows of one model, or as many in records of several."""

    def __init__(self, kafka: LocalKafka, cluster: Cluster, subject: Subject, rows: int) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._subject = subject
        self._rows = rows
        self._expected = subject.answers(ROWS_KEPT)
        self._filled: set[str] = set()

    def _records(self, system: System) -> int:
        """Records of a system's topic; large ones hold four times the rows, or their drain would be too short."""
        return self._rows if system.rows_a_record == 1 else 4 * self._rows // system.rows_a_record

    async def fill(self, system: System) -> bool:
        """Make the system's topics and write its requests; False when another system filled them before."""
        if system.requests in self._filled:
            return False
        await self._cluster.create(system.requests, REQUEST_PARTITIONS)
        await self._cluster.create(system.reply_to.topic, REPLY_PARTITIONS)
        numbers = range(self._records(system))
        write = system.form.request
        records = ((request_id(each).encode(), write(self._subject, each, system.reply_to)) for each in numbers)
        await self._cluster.fill(system.requests, records)
        self._filled.add(system.requests)
        return True

    async def drain(self, system: System) -> Outcome:
        """0. Kafka is idle; 1. rewind; 2. start, wait until all serve; 3. watch; 4. stop; 5. check some answers."""
        await asyncio.to_thread(settle, self._kafka)  # 0
        await self._cluster.rewind(system.group, system.requests)  # 1
        first, total = await self._cluster.end(system.reply_to.topic), self._records(system)
        programs = [system.make() for _ in range(system.workers)]
        async with AsyncExitStack() as stack:
            for program in programs:  # 2
                stack.push_async_callback(program.abandon)
                await program.start()
            await asyncio.gather(*(program.ready() for program in programs))
            drained = await watch(  # 3
                self._cluster, Others(self._kafka.pid), programs, system.reply_to.topic, first, total
            )
            rows = [await program.finish() for program in programs]  # 4
        await self._check(system, first, total)  # 5
        return Outcome(drained.of_rows(system.rows_a_record), sum(rows) / len(rows))

    async def _check(self, system: System, first: int, total: int) -> None:
        end = await self._cluster.end(system.reply_to.topic)
        # Several naive loops run some requests twice while they share out the partitions; that is their nature.
        if end - first != total and not (system.name == NAIVE and system.workers > 1):
            raise WrongCount(f"{system.name} gave {end - first} replies to {total} requests.")
        values = await self._cluster.read(system.reply_to.topic, max(first, end - CHECKED_REPLIES), end)
        check_answers([system.form.answer(value) for value in values], self._expected, system.rows_a_record)

    async def raw(self, processes: int) -> float:
        """Samples per second of onnxruntime alone, in so many processes at once."""
        words = (self._subject.name, str(self._subject.file), str(self._subject.batch))
        programs = [Program("benchmarks.raw", *words) for _ in range(processes)]
        for program in programs:
            await program.start()
        return sum([float(await program.line()) for program in programs])


def systems_of(subject: Subject, servers: str, folder: Path, wanted: Sequence[str]) -> list[System]:
    """The systems of these names that can run the model: the naive loop takes one input only."""
    systems = []
    for name in wanted:
        if name in VARIANTS:
            systems.append(headrace_system(subject, servers, folder, VARIANTS[name]))
        elif len(subject.rows) == 1:
            systems.append(naive_system(subject, servers))
    return systems


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Where model files and model directories of a run lie."""
    return tempfile.TemporaryDirectory(prefix="headrace-benchmark-")
