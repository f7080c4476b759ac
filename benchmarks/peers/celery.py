"""Celery on Redis: a plain task a row, bytes as MessagePack, results in Redis: `... .celery worker|drain|load`.

`worker` serves. `drain` enqueues `SPEC.batch` tasks, says "filled", and once the worker that is started then has
answered all of them prints the rate of the results. `load RATE SECONDS` sends by a Poisson schedule and prints the
latencies.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import cache
from typing import Any

import numpy as np
import redis
from celery import Celery  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given

SPEC = given()
WARM_UP_S, PATIENCE_S = 1.0, 10.0
SEED = 7
RESULTS = "celery-task-meta-"

app = Celery("benchmarks.peers.celery", broker=SPEC.servers, backend=SPEC.servers)
app.conf.update(
    task_serializer="msgpack",
    result_serializer="msgpack",
    accept_content=["msgpack"],
    worker_prefetch_multiplier=64,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    result_expires=600,
)


@cache
def model() -> OnnxModel:
    """One a process, loaded at its first task."""
    return OnnxModel(SPEC)


@app.task(name="infer")  # type: ignore[untyped-decorator]
def infer(row: bytes) -> bytes:
    """One row."""
    (answer,) = model().run_bytes([row])
    return answer


class Results:
    """When the result of each task was published, heard by a thread."""

    def __init__(self) -> None:
        self.done: dict[str, float] = {}
        self._listener = redis.Redis.from_url(SPEC.servers).pubsub()  # type: ignore[no-untyped-call]
        self._listener.psubscribe(f"{RESULTS}*")
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, count: int, patience_s: float) -> None:
        """Return when so many have come, or after `patience_s` without one."""
        seen, moved = 0, time.perf_counter()
        while len(self.done) < count and time.perf_counter() - moved < patience_s:
            if len(self.done) > seen:
                seen, moved = len(self.done), time.perf_counter()
            time.sleep(0.01)

    def _listen(self) -> None:
        for message in self._listener.listen():
            if message["type"] == "pmessage":
                self.done[message["channel"].decode().removeprefix(RESULTS)] = time.perf_counter()


def rows() -> list[bytes]:
    """Different rows, to be taken in turn."""
    random = np.random.default_rng(SEED)
    drawn = [[random.integers(0, 2, shape).astype(dtype) for _, dtype, shape in SPEC.inputs] for _ in range(64)]
    return [b"".join(array.tobytes() for array in each) for each in drawn]


def drain() -> dict[str, Any]:
    """The rate at which results of a full queue come: from 10 to 95 % of them, for processes begin one by one."""
    results, values = Results(), rows()
    for number in range(SPEC.batch):
        infer.delay(values[number % len(values)])
    print("filled", flush=True)
    results.wait(SPEC.batch, 60.0)
    moments = sorted(results.done.values())
    if len(moments) < SPEC.batch:
        return {"error": f"{len(moments)} of {SPEC.batch} results came"}
    first, last = int(0.1 * len(moments)), int(0.95 * len(moments))
    return {"per_s": (last - first) / (moments[last] - moments[first])}


def load(per_s: float, seconds: float) -> dict[str, Any]:
    """Latencies in ms, counted from when each task was due; None for those without a result."""
    results, values = Results(), rows()
    gaps = np.random.default_rng(SEED).exponential(1 / per_s, int(per_s * (WARM_UP_S + seconds)))
    due_s, due = np.cumsum(gaps), {}
    began, late = time.perf_counter(), []
    for number, moment in enumerate(due_s.tolist()):
        time.sleep(max(0.0, began + moment - time.perf_counter()))
        late.append(time.perf_counter() - began - moment)
        task = infer.delay(values[number % len(values)])
        if moment >= WARM_UP_S:
            due[task.id] = began + moment
    results.wait(len(due_s), PATIENCE_S)
    times = [results.done[id] - moment if id in results.done else None for id, moment in due.items()]
    return {"latency_s": times, "late_s": late, "seconds": float(due_s[-1]) - WARM_UP_S}


def main(what: str, *words: str) -> None:
    if what == "worker":
        concurrency = ("--concurrency", str(SPEC.workers))
        app.worker_main(["worker", "--pool", "prefork", *concurrency, "--loglevel", "error", "--without-gossip"])
    else:
        print(json.dumps(drain() if what == "drain" else load(*map(float, words))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
