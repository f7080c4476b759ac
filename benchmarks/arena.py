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
from benchmarks.programs import HeadraceWorker, Program, Served
from benchmarks.records import Form, HeadraceForm, NaiveForm, check_answers, request_id
from benchmarks.subjects import ROWS_KEPT, Subject
from producer_sdk.topics import Lane, ReplyTo, Topics

CHECKED_REPLIES = 200
HEADRACE_PREFIX = "bench"
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """One drain and the mean rows of a batch in it."""

    drain: Drain
    batch_rows: float


def headrace_system(subject: Subject, servers: str, models: Path) -> System:
    """headrace's worker; writes the model directory into `models`."""
    subject.write_directory(models, MAX_WAIT_MS)
    topics = Topics(HEADRACE_PREFIX)

    def make() -> Served:
        return HeadraceWorker(servers, models, subject.name, topics.prefix)

    requests = topics.requests(subject.name, Lane.ASYNC)
    reply_to = ReplyTo(topics.replies, REPLY_PARTITION)
    return System("headrace", requests, topics.group(subject.name), reply_to, HeadraceForm(), make)


def naive_system(subject: Subject, servers: str) -> System:
    """The naive loop."""
    requests, group = f"{NAIVE_PREFIX}.{subject.name}", f"{NAIVE_PREFIX}.{subject.name}"

    def make() -> Served:
        return Served("benchmarks.naive", servers, *_model_arguments(subject), requests, group)

    return System("naive", requests, group, ReplyTo(f"{NAIVE_PREFIX}.replies", REPLY_PARTITION), NaiveForm(), make)


def _model_arguments(subject: Subject) -> tuple[str, str, str]:
    return subject.name, str(subject.file), str(subject.batch)


class WrongCount(Exception):
    """There are more replies than requests: something ran twice."""


class Arena:
    """Drains of one model. `workers` processes of a system share a drain."""

    def __init__(self, cluster: Cluster, subject: Subject, requests: int, workers: int) -> None:
        self._cluster = cluster
        self._subject = subject
        self._requests = requests
        self._workers = workers
        self._expected = subject.answers(ROWS_KEPT)

    async def fill(self, system: System) -> None:
        """Make the system's topics and write its requests."""
        await self._cluster.create(system.requests, REQUEST_PARTITIONS)
        await self._cluster.create(system.reply_to.topic, REPLY_PARTITIONS)
        numbers = range(self._requests)
        write = system.form.request
        records = ((request_id(each).encode(), write(self._subject, each, system.reply_to)) for each in numbers)
        await self._cluster.fill(system.requests, records)

    async def drain(self, system: System) -> Outcome:
        """1. rewind; 2. start and wait until all serve; 3. watch; 4. stop; 5. check a sample of the answers."""
        await self._cluster.rewind(system.group, system.requests)  # 1
        first = await self._cluster.end(system.reply_to.topic)
        programs = [system.make() for _ in range(self._workers)]
        async with AsyncExitStack() as stack:
            for program in programs:  # 2
                stack.callback(program.kill)
                await program.start()
            await asyncio.gather(*(program.ready() for program in programs))
            drained = await watch(self._cluster, programs, system.reply_to.topic, first, self._requests)  # 3
            rows = [await program.finish() for program in programs]  # 4
        await self._check(system, first)  # 5
        return Outcome(drained, sum(rows) / len(rows))

    async def _check(self, system: System, first: int) -> None:
        end = await self._cluster.end(system.reply_to.topic)
        # Several naive loops run some requests twice while they share out the partitions; that is their nature.
        if end - first != self._requests and not (system.name == "naive" and self._workers > 1):
            raise WrongCount(f"{system.name} gave {end - first} replies to {self._requests} requests.")
        values = await self._cluster.read(system.reply_to.topic, max(first, end - CHECKED_REPLIES), end)
        check_answers([system.form.answer(value) for value in values], self._expected)

    async def raw(self) -> float:
        """Samples per second of onnxruntime alone, in as many processes as there are workers."""
        programs = [Program("benchmarks.raw", *_model_arguments(self._subject)) for _ in range(self._workers)]
        for program in programs:
            await program.start()
        return sum([float(await program.line()) for program in programs])


def systems_of(subject: Subject, servers: str, models: Path, wanted: Sequence[str]) -> list[System]:
    """The systems of these names that can run the model: the naive loop takes one input only."""
    systems = []
    if "naive" in wanted and len(subject.rows) == 1:
        systems.append(naive_system(subject, servers))
    if "headrace" in wanted:
        systems.append(headrace_system(subject, servers, models))
    return systems


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Where model files and model directories of a run lie."""
    return tempfile.TemporaryDirectory(prefix="headrace-benchmark-")
