"""The idle round trip SDK -> worker -> SDK beside E, a raw echo, in one run: `python -m benchmarks.round_trip`.

What is measured. One request is outstanding at a time. E: this process sends a request's bytes to a topic with
aiokafka, echo.py sends them to another topic, this process receives them; headrace: `await client.infer("mlp", row)`
with a worker whose mlp has `max_wait_ms: 0`, in the default isolation. Both on uvloop, on the same broker, with acks of
all replicas; E does not wait for the acknowledgement of its send, nor does the SDK before it takes the reply. Blocks of
100 of either alternate, both sides running all the time. The first are thrown away: they warm up what serves them, and
Kafka, whose Java may not compile any more from then on (java_compiler.py).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.arena import scratch_folder
from benchmarks.cluster import Cluster
from benchmarks.figures import RoundTrip
from benchmarks.java_compiler import compiler_stopped
from benchmarks.machine import Machine
from benchmarks.programs import HeadraceWorker, Served
from benchmarks.records import Answer, HeadraceForm, check_answers
from benchmarks.report import Report, finish
from benchmarks.subjects import ROWS_KEPT, Subject, model_file
from benchmarks.warm_kafka import settle, warm_kafka
from headrace.event_loop import run
from headrace.local_kafka import LocalKafka
from producer_sdk import Client
from producer_sdk.topics import ReplyTo

CALLS = 1_000
BLOCK = 100
WARM_UP_BLOCKS = 10
PREFIX = "trip"

Call = Callable[[int], Awaitable[object]]


async def measure(kafka: LocalKafka, folder: Path, calls: int = CALLS) -> RoundTrip:
    """Measure on a broker; `folder` takes the model directory."""
    servers = kafka.bootstrap_servers
    subject = Subject.of("mlp", model_file("mlp", folder))
    models = folder / "models-round-trip"
    subject.write_directory(models, max_wait_ms=0)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(servers))
        worker = HeadraceWorker(servers, models, "mlp", PREFIX)
        for topic in (f"{PREFIX}-echo.requests", f"{PREFIX}-echo.replies"):
            await cluster.create(topic, 1)
        echo = Served("benchmarks.echo", servers, f"{PREFIX}-echo.requests", f"{PREFIX}-echo.replies")
        for program in (worker, echo):
            stack.callback(program.kill)
            await program.start()
            await program.ready()
        by_echo = await stack.enter_async_context(echo_call(servers, subject))
        by_headrace = await stack.enter_async_context(headrace_call(servers, subject))
        await _alternate((by_echo, by_headrace), WARM_UP_BLOCKS)
        await asyncio.to_thread(settle, kafka)
        with compiler_stopped(kafka.pid):
            times = await _alternate((by_echo, by_headrace), calls // BLOCK)
        for program in (echo, worker):
            await program.stop()
    return RoundTrip(*times)


async def _alternate(kinds: Sequence[Call], blocks: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in kinds]
    for _ in range(blocks):
        for call, taken in zip(kinds, times, strict=True):
            for number in range(BLOCK):
                began = time.perf_counter()
                await call(number)
                taken.append(time.perf_counter() - began)
    return times


@asynccontextmanager
async def echo_call(servers: str, subject: Subject) -> AsyncIterator[Call]:
    """One round through the echo, with the bytes of a real request."""
    requests, replies = f"{PREFIX}-echo.requests", TopicPartition(f"{PREFIX}-echo.replies", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="latest")
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    form, reply_to = HeadraceForm(), ReplyTo(f"{PREFIX}.replies", 0)
    async with consumer, producer:
        consumer.assign([replies])
        await consumer.seek_to_end(replies)
        await consumer.position(replies)

        async def call(number: int) -> object:
            value = form.request(subject, number, reply_to)
            await producer.send(requests, value, b"benchmark", partition=0)
            return await consumer.getone(replies)

        yield call


@asynccontextmanager
async def headrace_call(servers: str, subject: Subject) -> AsyncIterator[Call]:
    """One round through the SDK and the worker; its first answer is checked."""
    async with Client(servers, prefix=PREFIX) as client:
        first = await client.infer("mlp", subject.row(0))
        check_answers([Answer(0, first.outputs)], subject.answers(1))

        async def call(number: int) -> object:
            return await client.infer("mlp", subject.row(number % ROWS_KEPT))

        yield call


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.round_trip", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    machine = Machine.here()
    with warm_kafka() as kafka, scratch_folder() as folder:
        round_trip = run(measure(kafka, Path(folder), given.calls))
    return finish(Report(machine, round_trip=round_trip), given.json)


if __name__ == "__main__":
    sys.exit(main())
