"""A full backlog pauses its partitions while polling goes on; nothing is lost and nobody leaves the group."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker


@pytest.mark.timeout(180)
async def test_a_slow_model_holds_few_requests_and_answers_all(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=4)
    async with (
        running_worker(broker, models, prefix, max_backlog_requests=8) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        loop, most = worker.loops[0], 0
        assignments = loop.intake.assignments
        inputs = ({"x": np.array([[0.02, n]], np.float32)} for n in range(120))
        async for reply in client.map("m", inputs, window=120):
            assert not isinstance(reply, HeadraceError)
            most = max(most, loop.metrics.backlog())
        assert most <= 8 + 1
        assert loop.intake.assignments == assignments


@pytest.mark.timeout(180)
async def test_polling_goes_on_while_the_backlog_is_full(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    async with (
        running_worker(broker, models, prefix, max_backlog_requests=1) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        loop = worker.loops[0]
        asked = [asyncio.create_task(client.infer("m", {"x": np.array([[1.0, n]], np.float32)})) for n in range(4)]
        await until(lambda: loop.metrics.backlog() >= 1)
        polled = loop.taking.polled_at
        await until(lambda: loop.taking.polled_at > polled + 0.4, 3.0)
        await asyncio.gather(*asked)
