"""A quiet worker takes no new work and finishes what it has; its partitions stay with it until it is told to end."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, Reply
from producer_sdk.announcements import ModelState
from producer_sdk.broker import Broker


@pytest.mark.timeout(180)
async def test_a_quiet_worker_finishes_what_it_has_and_leaves_the_rest_to_the_next(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)

    async with Client(broker, prefix=prefix) as client:

        def ask(seconds: float) -> asyncio.Task[Reply]:
            return asyncio.create_task(client.infer("m", {"x": np.array([[seconds, 1]], np.float32)}))

        async with running_worker(broker, models, prefix) as worker:
            (loop,) = worker.loops
            await ask(0.0)
            taken = ask(1.0)
            await until(lambda: loop.metrics.batches == 2)
            assignments = loop.intake.assignments
            worker.stop.quiet.set()
            await until(lambda: worker.health.ready() is not None)
            await until(lambda: loop.intake.reading.nothing)
            left = ask(0.0)
            assert float((await taken).outputs["y"][0, 0]) == 2.0
            await asyncio.sleep(0.6)
            assert not left.done()
            assert "quiet" in (worker.health.ready() or "")
            assert worker.health.live() is None
            assert loop.standing()[0] is ModelState.UNAVAILABLE
            assert loop.intake.assignments == assignments
        async with running_worker(broker, models, prefix):
            assert isinstance(await left, Reply)
