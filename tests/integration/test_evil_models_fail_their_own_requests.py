"""Whatever model code does, its own request fails, typed, and nobody else's."""

from pathlib import Path

import numpy as np
import pytest
from model_folders import python_model
from worker_rig import WorkerProcess, running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.errors import Code
from producer_sdk.kafka import KafkaBroker
from producer_sdk.memory import MemoryBroker

# The first number says what the row does to its batch; other rows are doubled.
EVIL = """
import os, sys, time

class Unspeakable(Exception):
    def __str__(self):
        raise KeyboardInterrupt("no words")

class Model:
    def predict(self, inputs):
        for what in inputs["x"][:, 0]:
            if what == 1: sys.exit("no licence")
            if what == 2: raise KeyboardInterrupt
            if what == 3: raise FileNotFoundError(os.fsdecode(b"no file \\xff"))
            if what == 4: raise Unspeakable
            if what == 5: return {1: inputs["x"], None: inputs["x"]}
        return {"y": inputs["x"] * 2}
"""

# A forked child falls back into the runner's loop and would answer in its parent's name.
FORKING = """
import os, time

class Model:
    def predict(self, inputs):
        if inputs["x"][0, 0] == 20 and os.fork() == 0:
            time.sleep(0.12)
            return {"y": inputs["x"]}
        time.sleep(0.03)
        return {"y": inputs["x"]}
"""


async def test_an_exit_an_interrupt_or_unspeakable_words_cost_no_runner(prefix: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    models = python_model(tmp_path, "m", EVIL, max_wait_ms=50)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        inputs = [{"x": np.array([[what, 7]], np.float32)} for what in (0, 1, 2, 3, 4, 5, 0)]
        answers = [answer async for answer in client.map("m", inputs, ordered=True)]
        assert worker.loops[0].device.deaths == 0
    codes = [answer.code if isinstance(answer, HeadraceError) else "OK" for answer in answers]
    assert codes == ["OK", *[Code.INFERENCE_FAILED] * 5, "OK"]
    words = " | ".join(str(answer) for answer in answers[1:6])
    assert all(part in words for part in ("no licence", "Keyboard", "udcff", "its text cannot be had", "'y'")), words


async def test_a_child_that_model_code_forks_answers_for_nobody(prefix: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    models = python_model(tmp_path, "m", FORKING, max_batch_size=1)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        inputs = [{"x": np.array([[n, 7]], np.float32)} for n in range(60)]
        answers = [answer async for answer in client.map("m", inputs, ordered=True, window=8)]
        assert worker.loops[0].device.deaths == 0
    numbers = [-1 if isinstance(answer, HeadraceError) else int(answer.outputs["y"][0, 0]) for answer in answers]
    assert numbers == list(range(60))


@pytest.mark.timeout(180)
async def test_a_session_timeout_that_kafka_refuses_ends_the_worker_with_a_sentence(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    models, told = python_model(tmp_path / "models", "m"), {"HEADRACE_SESSION_TIMEOUT_S": "2"}
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log", **told)
    worker.start()
    assert worker.process.wait(30) == 1
    assert "refuses session_timeout_s" in worker.log
    assert "Traceback" not in worker.log
