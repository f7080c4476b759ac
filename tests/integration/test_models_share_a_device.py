"""Models on one device take turns, so that one does not wait for all of another's requests."""

import asyncio
from pathlib import Path

import numpy as np
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk import Client
from producer_sdk.memory import MemoryBroker

# Gives when its run began and when it ended.
TIMED = """
import time
import numpy as np

class Model:
    def predict(self, inputs):
        began = time.time()
        time.sleep(0.02)
        return {"y": np.array([[began, time.time()]] * len(inputs["x"]))}
"""
TIMES = [{"name": "y", "datatype": "FP64", "shape": [2]}]
REQUESTS = 12


async def test_two_models_of_one_gpu_never_run_at_once_and_neither_waits_for_all_of_the_other(
    prefix: str, tmp_path: Path
) -> None:
    for name in "ab":  # python models ask no driver, so that any device will do
        models = python_model(tmp_path, name, TIMED, outputs=TIMES, device="cuda:0", max_batch_size=1, max_wait_ms=0)
    broker = MemoryBroker()
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        x = {"x": np.zeros((1, 2), np.float32)}
        await asyncio.gather(*(client.infer(name, x) for name in "ab"))
        asked = [client.infer(name, x) for _ in range(REQUESTS) for name in "ab"]
        replies = await asyncio.gather(*asked)
    runs = {name: sorted(map(tuple, (r.outputs["y"][0] for r in replies if r.model == name))) for name in "ab"}
    overlapping = [(a, b) for a in runs["a"] for b in runs["b"] if a[0] < b[1] and b[0] < a[1]]
    assert overlapping == []
    assert runs["a"][0] < runs["b"][-1]
    assert runs["b"][0] < runs["a"][-1]
