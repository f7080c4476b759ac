"""A request whose deadline has passed is answered DEADLINE_EXCEEDED and never reaches the device."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from model_folders import DEADLY, SLEEPY, python_model
from worker_rig import running_worker

from producer_sdk import Client
from producer_sdk.broker import Broker
from producer_sdk.errors import DeadlineExceeded


async def test_a_request_that_expired_in_the_log_is_not_run(broker: Broker, prefix: str, tmp_path: Path) -> None:
    log = tmp_path / "runs"
    models = python_model(tmp_path / "models", "m", DEADLY, parameters={"log": str(log)})
    async with running_worker(broker, models, prefix):
        pass  # makes the topics
    async with Client(broker, prefix=prefix) as client:
        asked = asyncio.create_task(client.infer("m", {"x": np.array([[1, 5]], np.float32)}, deadline_s=0.3))
        await asyncio.sleep(0.35)
        async with running_worker(broker, models, prefix):
            with pytest.raises(DeadlineExceeded):
                await asked
            await client.infer("m", {"x": np.array([[1, 6]], np.float32)})
    assert "5" not in log.read_text().split()


async def test_a_request_that_expires_behind_a_long_batch_is_answered_meanwhile(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    async with (
        running_worker(broker, models, prefix, clock_skew_allowance_s=0),
        Client(broker, prefix=prefix) as client,
    ):
        await client.infer("m", {"x": np.array([[0, 1]], np.float32)})
        long = [
            asyncio.create_task(client.infer("m", {"x": np.array([[1.5, 1]], np.float32)})) for _ in range(2)
        ]  # one runs, one lies in the second slot
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceeded, match=r"waited|would have passed"):
            await client.infer("m", {"x": np.array([[0, 1]], np.float32)}, deadline_s=0.4)
        assert asyncio.get_running_loop().time() - began < 0.9
        await asyncio.gather(*long)
