"""CPU microseconds a request of the worker's own code, step by step, without broker, sockets, event loop and model.

`python -m benchmarks.cpu_by_step [--rows N] [--batch N] [--repeats N]`

Fetched bytes of mlp requests go the way that requests go in a worker, 256 records at a time, and end as the bytes of a
produce request and of a commit. In the model's place are outputs that are there already. Each step is timed by itself;
of all repeats the least counts, since whatever else the machine does can only add to it. What a drain costs beside
these steps, `benchmarks.worker` measures in the whole.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.producer.message_accumulator import BatchBuilder

from benchmarks.records import HeadraceForm, request_id
from benchmarks.subjects import BATCHES, Subject
from producer_sdk._kafka_batches import Batches
from producer_sdk._kafka_haul import Hauled
from producer_sdk._kafka_offsets import Membership, commit_request
from producer_sdk._kafka_producer import fill
from producer_sdk.broker import Record, TopicPartition
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Lane, ReplyTo, Topics
from workers.backlog import Backlog
from workers.batch import BatchRule
from workers.commit import PartitionLedger, due_commits
from workers.decode import Decoder
from workers.later import Later
from workers.metrics import ModelMetrics
from workers.publish import by_ledger
from workers.reception import Reception
from workers.reply import Scribe
from workers.retry import Span
from workers.runners.answers import read_answer
from workers.runners.engine import Loaded, ModelSpec, Signature, TensorSpec
from workers.runners.messages import HEAD_BYTES, decode_done, decode_run, encode
from workers.runners.placing import Placement, place
from workers.runners.session import Session
from workers.runners.shm import Heap
from workers.send import Destinations, Sender
from workers.work import Answer, Batch, Outcome

HAUL = 256
WIDTH, OUTPUTS = 384, 10
MAX_BYTES = 1 << 28
MAX_RECORD_BYTES = 1_048_000
CLOCK_MS = 1_800_000_000_000
TOPICS = Topics("bench")
PARTITION = TopicPartition(TOPICS.requests("mlp", Lane.ASYNC), 0)
REPLY_TO = ReplyTo(TOPICS.replies, 7)

Result = TypeVar("Result")


class ReadyMade:
    """An engine whose outputs are there already."""

    def __init__(self, rows: int) -> None:
        self._outputs = np.zeros((rows, OUTPUTS), dtype=np.float32)

    def load(self, spec: ModelSpec) -> Loaded:
        raise AssertionError("there is nothing to load")

    def run(self, inputs: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        return {"y": self._outputs[: len(parameters)]}

    def close(self) -> None: ...


class Bench:
    """The steps of a worker for one model, each from what the one before gave; a haul has its own offsets."""

    def __init__(self, rows: int, batch: int) -> None:
        spec = ModelSpec("mlp", "1", Path(), "python", max_batch_size=batch)
        signature = Signature(
            (TensorSpec("x", Datatype.FP32, (WIDTH,)),), (TensorSpec("y", Datatype.FP32, (OUTPUTS,)),)
        )
        loaded = Loaded(signature, "python", batch)
        self.signature = signature
        self.backlog = Backlog(4 * HAUL, MAX_BYTES)
        self.backlog.rule = BatchRule(batch, MAX_BYTES, 0.01)
        self.scribe = Scribe(TOPICS, "mlp", "1", MAX_RECORD_BYTES)
        self.ledger = PartitionLedger(PARTITION)
        self.reception = Reception(spec, TOPICS, Decoder(TOPICS, spec, loaded), self.scribe, self.backlog, Later(1),
                                   None, lambda rejected: None)  # fmt: skip
        self.metrics = ModelMetrics("mlp", backlog=int, lag=int, deaths=int)
        destinations = Destinations(None)  # type: ignore[arg-type]
        destinations.partitions = {REPLY_TO.topic: 32}
        self.sender = Sender(None, destinations, self.scribe, print, print, None, print)  # type: ignore[arg-type]
        self.session = Session(ReadyMade(batch * rows), spec, loaded, MAX_BYTES)
        self.inputs, self.outputs = Heap(), Heap()
        self.outputs.reserve(HEAD_BYTES)
        self.fetched = fetched_bytes(rows)

    def read(self) -> Sequence[Record]:
        held = PartitionRecords(
            KafkaPartition(*PARTITION), Batches(self.fetched), None, 0, None, None, True, READ_COMMITTED
        )
        return Hauled(held).take(HAUL)

    def decode(self, records: Sequence[Record]) -> None:
        run(self.reception.receive(self.ledger.take_all(records), self.ledger, Lane.ASYNC))

    def batches(self) -> list[Batch]:
        taken = []
        while len(self.backlog):
            taken.append(self.backlog.take(time.monotonic()))
        return taken

    def place(self, batch: Batch) -> bytes:
        placement: Placement = place(batch, self.signature.inputs, self.inputs, MAX_BYTES)
        return encode(placement.run(1, 0, len(self.inputs.view), 0, len(batch.works)))

    def run(self, message: bytes) -> bytes:
        return encode(self.session.run(decode_run(message), self.inputs.view, self.outputs))

    def reply(self, batch: Batch, message: bytes) -> list[Outcome]:
        answer: Answer = read_answer(decode_done(message), self.signature.outputs, self.outputs.view)
        span = Span(0, len(batch.works))
        return self.scribe.answered(batch, span, answer, time.monotonic(), time.monotonic())[0]

    def publish(self, outcomes: Sequence[Outcome]) -> None:
        for group in run(self.sender.by_partition(outcomes)).values():
            builder = BatchBuilder(MAX_RECORD_BYTES, 0)
            fill(builder, [outcome.outgoing for outcome in group])
            builder._build()

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        for ledger, offsets in by_ledger(outcomes):
            ledger.finish_all(offsets)
        self.metrics.count(outcomes, time.monotonic())

    def commit(self) -> None:
        due = due_commits([self.ledger])
        commit_request("bench.mlp", Membership(1, "member"), due)
        for committed in due.values():
            self.ledger.committed(committed)
        self.ledger = PartitionLedger(PARTITION)


def fetched_bytes(rows: int) -> bytes:
    """One fetched batch of a haul's records, of so many rows each."""
    random = np.random.default_rng(1)
    subject = Subject("mlp", Path(), BATCHES["mlp"], {"x": random.standard_normal((512, WIDTH), dtype=np.float32)})
    form, builder = HeadraceForm(rows), BatchBuilder(MAX_BYTES, 0)
    for number in range(HAUL):
        value = form.request(subject, number, REPLY_TO)
        builder.append(timestamp=CLOCK_MS, key=request_id(number).encode(), value=value)
    return bytes(builder._build())


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine that has nothing to wait for returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise RuntimeError(f"{coroutine} waits for something")


class Times:
    """Least nanoseconds of each step over the repeats; a step may come several times in one."""

    def __init__(self) -> None:
        self.least: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def of(self, step: str, call: Callable[..., Result], *arguments: Any) -> Result:
        began = time.process_time_ns()
        result = call(*arguments)
        self._now[step] = self._now.get(step, 0) + time.process_time_ns() - began
        return result

    def end_of_repeat(self) -> None:
        for step, spent in self._now.items():
            self.least[step] = min(spent, self.least.get(step, spent))
        self._now = {}


def measure(rows: int, batch: int, repeats: int) -> Mapping[str, float]:
    """CPU microseconds a request by step."""
    bench, times = Bench(rows, batch), Times()
    for _ in range(repeats):
        records = times.of("read: fetched bytes to records", bench.read)
        times.of("decode: records to waiting requests", bench.decode, records)
        outcomes: list[Outcome] = []
        for each in times.of("batch: waiting requests to batches", bench.batches):
            message = times.of("place: inputs to shared memory", bench.place, each)
            answer = times.of("run: in the runner, without the model", bench.run, message)
            outcomes += times.of("reply: outputs to replies", bench.reply, each, answer)
        times.of("publish: replies to a produce request", bench.publish, outcomes)
        times.of("finish: ledger and metrics", bench.finish, outcomes)
        times.of("commit: once a haul", bench.commit)
        times.end_of_repeat()
    return {step: least / HAUL / 1000 for step, least in times.least.items()}


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.cpu_by_step", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=1, help="rows of a request")
    parser.add_argument("--batch", type=int, default=64, help="most rows of a batch")
    parser.add_argument("--repeats", type=int, default=200)
    given = parser.parse_args()
    by_step = measure(given.rows, max(given.rows, given.batch), given.repeats)
    for step, microseconds in by_step.items():
        print(f"{microseconds:8.2f} us  {step}")
    print(f"{sum(by_step.values()):8.2f} us  together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
