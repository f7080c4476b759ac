"""Memory that runs out makes batches smaller and fails no request that fits by itself."""

from pathlib import Path

import numpy as np
import pytest
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.testing import MemoryBroker

LIMIT = 5
REQUESTS = 200

# Doubles up to LIMIT rows; more are too much for its allocator. Each call's rows are noted.
ALLOCATOR = """
class Model:
    def load(self, context):
        self.log = context.parameters["log"]

    def predict(self, inputs):
        rows = len(inputs["x"])
        with open(self.log, "a") as log:
            log.write(f"{{rows}}\\n")
        if rows > {limit}:
            raise {error}
        return {{"y": inputs["x"] * 2}}
"""
ONNX_WORDS = "Available memory of 4096 is smaller than requested bytes of 8192"
ARENA_WORDS = "bfc_arena.cc:376 AllocateRawInternal Failed to allocate memory for requested buffer of size 939524096"


@pytest.mark.parametrize("error", ["MemoryError()", f"RuntimeError({ONNX_WORDS!r})", f"RuntimeError({ARENA_WORDS!r})"])
async def test_an_allocator_with_a_limit_fails_nothing_and_its_limit_is_found(
    prefix: str, tmp_path: Path, error: str
) -> None:
    broker, log = MemoryBroker(), tmp_path / "log"
    code = ALLOCATOR.format(limit=LIMIT, error=error)
    models = python_model(
        tmp_path / "models", "m", code, max_batch_size=32, max_wait_ms=50, isolation="inline",
        parameters={"log": str(log)},
    )  # fmt: skip
    rows = [np.array([[n, 1]], np.float32) for n in range(REQUESTS)]
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        replies = [reply async for reply in client.map("m", ({"x": row} for row in rows), ordered=True)]
        cap = worker.loops[0].device.row_cap(())
    assert not [reply for reply in replies if isinstance(reply, HeadraceError)]
    sizes = [int(line) for line in log.read_text().split()]
    assert LIMIT // 2 < cap <= LIMIT
    assert sum(size > LIMIT for size in sizes) <= 6
