"""How far `headrace simulate` is from a real run: `python -m benchmarks.simulate_check`.

What is measured. A worker as users start it, on an Apache Kafka of this machine, serves a python model that sleeps
30 ms + 3 ms a row, or an ONNX model. Requests one after another tell what a request takes besides waiting and running;
a burst and some seconds of the same load, what batches take, from the replies' parameters. Then come Poisson arrivals
in open loop, with deadlines, from another seed: this run is predicted. Its requests are read from the topics, as
`headrace simulate --record` does, and simulated with what was learned before it. Latencies are those that the SDK's
caller sees; a request that was answered with an error has none, in either.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins

from benchmarks.arena import scratch_folder
from benchmarks.machine import Machine
from benchmarks.programs import HeadraceWorker, ProgramError
from benchmarks.subjects import ROWS_KEPT, Array, Subject, model_file
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from headrace.sim_case import Case, Site, simulate_case
from headrace.sim_engine import Delays
from headrace.sim_load import Load, Mix, make_trace
from headrace.sim_record import record_trace
from headrace.sim_report import Summary, percentile_ms, summarize
from headrace.sim_times import Learned
from headrace.sim_trace import Arrival, Trace
from producer_sdk import Client, HeadraceError
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Lane, Topics
from workers.models import find_models
from workers.run_times import RunTimes

PREFIX = "foretold"
SLEEPER_NAME = "sleeper"
FIXED_MS, ROW_MS = 30.0, 3.0
BATCH, MAX_WAIT_MS = 16, 5.0
IDLE_CALLS, BURST_BATCHES, WARM_UP_S, SECONDS = 60, 12, 6.0, 20.0
FIRST_LIMIT_S = 5.0
REST_S = 1.0  # what was asked for just before is let in by the clock, and cut off by number
LOAD = 0.7
DEADLINES_S: Mix[float | None] = Mix((0.3, 0.8, 3.0), (3.0, 4.0, 3.0))
ALLOWANCE_S = 0.1  # the worker's default clock_skew_allowance_s
BOUND = 0.15
SLEEPER = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(({fixed} + {row} * len(inputs["x"])) / 1000)
        return {{"y": inputs["x"] * 2}}
"""
MANIFEST = """
engine: python
max_batch_size: {batch}
max_wait_ms: {wait}
inputs: [{{name: x, datatype: FP32, shape: [2]}}]
outputs: [{{name: y, datatype: FP32, shape: [2]}}]
"""


class Told(Struct, frozen=True):
    """One request of a real run; `run_s` and what follows are the worker's words, None with an error."""

    latency_s: float
    deadline_s: float | None
    run_s: float | None = None
    queue_s: float = 0.0
    batch_rows: int = 0


class Given(Struct, frozen=True):
    """How hard and how long to ask; load is the share of what full batches could do."""

    load: float
    seconds: float


class Compared(Struct, frozen=True):
    """The same quantity, measured and predicted."""

    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Share by which the prediction is off."""
        return self.predicted / self.measured - 1 if self.measured else 0.0


class Result(Struct, frozen=True):
    """What a check came to; latencies in milliseconds."""

    model: str
    requests: int
    rate: float
    p50_ms: Compared
    p99_ms: Compared
    in_time: Compared
    mean_rows: Compared


class Asker:
    """Asks one model for one row after another, in open loop. Belongs to one event loop."""

    def __init__(self, client: Client, model: str, rows: Sequence[Mapping[str, Array]]) -> None:
        self._client = client
        self._model = model
        self._rows = rows

    async def all(self, arrivals: Sequence[Arrival]) -> list[Told]:
        """Ask at each arrival's time, however long the answers take; gives them in order."""
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            tasks = []
            for number, arrival in enumerate(arrivals):
                if (early_s := began + arrival.at_s - time.perf_counter()) > 0:
                    await asyncio.sleep(early_s)
                tasks.append(group.create_task(self.one(arrival.deadline_s, number)))
        return [task.result() for task in tasks]

    async def one(self, deadline_s: float | None, number: int = 0) -> Told:
        row = self._rows[number % len(self._rows)]
        began = time.perf_counter()
        try:
            reply = await self._client.infer(self._model, row, lane=Lane.INTERACTIVE, deadline_s=deadline_s or 60.0)
        except HeadraceError:
            return Told(time.perf_counter() - began, deadline_s)
        latency_s, told = time.perf_counter() - began, reply.parameters
        run_s, queue_s = float(told["run_ms"]) / 1000, float(told["queue_ms"]) / 1000
        return Told(latency_s, deadline_s, run_s, queue_s, int(told["batch_rows"]))


async def check(servers: str, models: Path, model: str, rows: Sequence[Mapping[str, Array]], given: Given) -> Result:
    """1. idle; 2. a burst, which tells the most rows a second; 3. warm-up; 4. the run; 5. its trace; 6. forecast."""
    (spec,) = find_models(models, [model])
    times = RunTimes()
    async with AsyncExitStack() as stack:
        worker = HeadraceWorker(servers, models, model, PREFIX)
        stack.callback(worker.kill)
        await worker.start()
        await worker.ready()
        client = await stack.enter_async_context(Client(servers, prefix=PREFIX))
        ask = Asker(client, model, rows)
        delays = delays_of([await ask.one(FIRST_LIMIT_S) for _ in range(IDLE_CALLS)][IDLE_CALLS // 3 :])  # 1
        learn(times, await ask.all([Arrival(0.0)] * (BURST_BATCHES * spec.max_batch_size)))  # 2
        rate = given.load * spec.max_batch_size / times.mean_s((), spec.max_batch_size, spec.max_batch_size)
        learn(times, await ask.all(arrivals(rate, WARM_UP_S, seed=1)))  # 3
        told = await ask.all(arrivals(rate, given.seconds, seed=2))  # 4
        broker = KafkaSettings(bootstrap_servers=servers).broker()
        recorded = await record_trace(broker, Topics(PREFIX), model, spec, given.seconds + REST_S)  # 5
        await worker.stop()
    trace = Trace(recorded.trace.source, recorded.trace.arrivals[-len(told) :])
    site = Site(Learned(times), Learned(times), spec.batching, delays)  # 6
    case = Case(spec.max_batch_size, spec.max_wait_ms)
    return compare(model, rate, told, summarize(simulate_case(trace, case, site)))


def arrivals(rate: float, seconds: float, seed: int) -> Sequence[Arrival]:
    return make_trace(Load(rate, seconds, deadlines_s=DEADLINES_S, seed=seed)).arrivals


def learn(times: RunTimes, told: Sequence[Told]) -> None:
    """Let the surface learn from each run once; replies of one run tell the very same of it."""
    for run_s, rows in dict.fromkeys((each.run_s, each.batch_rows) for each in told):
        times.observe((), rows, float(rows), run_s or 0.0)


def delays_of(idle: Sequence[Told]) -> Delays:
    """What requests that came one by one took besides waiting and running: half on the way in, half after that.

    Raises:
        ProgramError: none was answered.
    """
    outside = sorted(each.latency_s - each.queue_s - each.run_s for each in idle if each.run_s is not None)
    if not outside:
        raise ProgramError("The worker answers no request: see its log above.")
    least = outside[0]
    more = tuple(each - least for each in outside)
    return Delays(least / 2, least / 4, least / 4, more, ALLOWANCE_S)


def compare(model: str, rate: float, told: Sequence[Told], predicted: Summary) -> Result:
    answered = sorted(each.latency_s for each in told if each.run_s is not None)
    in_time = sum(each.latency_s <= (each.deadline_s or math.inf) for each in told if each.run_s is not None)
    batches = sum(1 / each.batch_rows for each in told if each.run_s is not None)
    share = predicted.all
    return Result(
        model,
        len(told),
        rate,
        Compared(percentile_ms(answered, 0.50) or 0.0, share.p50_ms or 0.0),
        Compared(percentile_ms(answered, 0.99) or 0.0, share.p99_ms or 0.0),
        Compared(in_time / len(told), share.in_time),
        Compared(len(answered) / batches, predicted.mean_rows),
    )


def write_sleeper(models: Path) -> Sequence[Mapping[str, Array]]:
    """The model that sleeps, in the model directory; gives the rows to ask it for."""
    version = models / SLEEPER_NAME / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(SLEEPER.format(fixed=FIXED_MS, row=ROW_MS), encoding="utf-8")
    manifest = MANIFEST.format(batch=BATCH, wait=MAX_WAIT_MS)
    (models / SLEEPER_NAME / "model.yaml").write_text(manifest, encoding="utf-8")
    return [{"x": np.zeros((1, 2), np.float32)}]


def write_subject(model: str, folder: Path, models: Path) -> Sequence[Mapping[str, Array]]:
    subject = Subject.of(model, model_file(model, folder))
    subject.write_directory(models, MAX_WAIT_MS)
    return [subject.row(number) for number in range(ROWS_KEPT)]


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.simulate_check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", choices=(SLEEPER_NAME, "mlp", "minilm"), default=SLEEPER_NAME)
    parser.add_argument("--load", type=float, default=LOAD, help="of the rows a second that full batches could run")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    machine, given = Machine.here(), Given(options.load, options.seconds)
    with warm_kafka() as kafka, scratch_folder() as scratch:
        folder = Path(scratch)
        models, model = folder / "models", options.model
        rows = write_sleeper(models) if model == SLEEPER_NAME else write_subject(model, folder, models)
        result = run(check(kafka.bootstrap_servers, models, model, rows, given))
    print(table(result))
    print(machine)
    if options.json:
        options.json.write_text(json.dumps(to_builtins(result), indent=1) + "\n", encoding="utf-8")
    return 0 if abs(result.p99_ms.error) <= BOUND else 1


def table(result: Result) -> str:
    """Markdown."""
    named = {"P50, ms": result.p50_ms, "P99, ms": result.p99_ms, "in time": result.in_time}
    named |= {"rows of a batch": result.mean_rows}
    lines = [f"{result.model}: {result.requests} requests, {result.rate:.0f} a second", ""]
    lines += ["| | measured | predicted | error |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {each.measured:.3g} | {each.predicted:.3g} | {each.error:+.1%} |" for name, each in named.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
