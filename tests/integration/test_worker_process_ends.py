"""`headrace worker` as a process: its exit code and its last words."""

import asyncio
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import WorkerProcess

from producer_sdk import Client
from producer_sdk.kafka import KafkaBroker

LOADS_FOR_LONG = """
import time

class Model:
    def load(self, context):
        print("the load has begun")
        time.sleep(60)

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""


async def ended(worker: WorkerProcess, within_s: float) -> int:
    began = time.monotonic()
    code = await asyncio.to_thread(worker.process.wait, 60)
    assert time.monotonic() - began < within_s
    return code


async def test_without_a_broker_it_says_so_in_a_sentence_and_exits_1(prefix: str, tmp_path: Path) -> None:
    models, told = python_model(tmp_path / "models", "m"), {"HEADRACE_START_TIMEOUT_S": "1"}
    worker = WorkerProcess("127.0.0.1:1", models, prefix, tmp_path / "log", **told)
    worker.start()
    assert await ended(worker, 30.0) == 1
    assert worker.log.count("Waiting for Kafka") == 1
    assert "no connection to Kafka at 127.0.0.1:1" in worker.log
    assert "Traceback" not in worker.log


async def test_a_term_while_a_model_loads_exits_0_at_once(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path / "models", "m", LOADS_FOR_LONG)
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log")
    worker.start()
    await worker.ready(lambda: "the load has begun" in worker.log)
    worker.process.send_signal(signal.SIGTERM)
    assert await ended(worker, 5.0) == 0
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(("signals", "drain_s"), [(1, "0.3"), (2, "60")])
async def test_a_batch_too_long_for_the_drain_or_a_second_term_exits_3_and_says_what_is_left(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path, signals: int, drain_s: str
) -> None:
    models = python_model(tmp_path / "models", "m", SLEEPY)
    told = {"HEADRACE_DRAIN_TIMEOUT_S": drain_s, "HEADRACE_ENDPOINT_LAG_S": "0"}
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log", **told)
    worker.start()
    await worker.serves()
    async with Client(kafka_broker, prefix=prefix) as client:
        await client.publish("m", {"x": np.array([[30.0, 1]], np.float32)})
        await asyncio.sleep(1.0)
        for _ in range(signals):
            worker.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
        assert await ended(worker, 5.0) == 3
    assert "Stopped before everything was finished: model m: 1 batches on the device, 0 requests waiting" in worker.log
    assert "Traceback" not in worker.log
