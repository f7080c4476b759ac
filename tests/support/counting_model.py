"""A model that doubles and notes each run, on a worker that one client asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk import Client, Reply
from producer_sdk.broker import Broker
from workers.reply_index import ReplyIndex
from workers.serve import Worker

# Notes the first number of each row, a line a run.
COUNTING = """
class Model:
    def load(self, context):
        self.log = context.parameters["log"]

    def predict(self, inputs):
        with open(self.log, "a") as log:
            log.write(" ".join(str(int(row[0])) for row in inputs["x"]) + "\\n")
        return {"y": inputs["x"] * 2}
"""


def counting_model(folder: Path, **keys: object) -> Path:
    """The model directory with the model `m`, which writes to `folder/runs`."""
    log = folder / "runs"
    log.touch()
    return python_model(folder / "models", "m", COUNTING, parameters={"log": str(log)}, dedupe="redis", **keys)  # type: ignore[arg-type]


def runs(folder: Path) -> list[str]:
    return (folder / "runs").read_text().splitlines()


class Asked:
    """A worker and a client that asks it."""

    def __init__(self, worker: Worker, client: Client) -> None:
        self.worker = worker
        self.client = client

    @property
    def index(self) -> ReplyIndex:
        index = self.worker.loops[0].metrics.index
        assert index is not None
        return index

    async def answer(self, id: str, x: float) -> Reply:
        return await self.client.infer("m", {"x": np.array([[x, 1]], np.float32)}, id=id, deadline_s=10)


@asynccontextmanager
async def asking(broker: Broker, prefix: str, models: Path, redis_url: str, **settings: object) -> AsyncIterator[Asked]:
    async with (
        running_worker(broker, models, prefix, redis_url=redis_url, **settings) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        yield Asked(worker, client)
