"""A lane that is full is closed by itself: its partitions pause, requests of the other lanes are read on."""

import asyncio
from pathlib import Path

import numpy as np
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, Lane
from producer_sdk.broker import Broker

WAITING = 40


async def test_an_interactive_request_is_read_while_the_bulk_lane_is_full(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    async with (
        running_worker(broker, models, prefix, max_backlog_requests=8) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        loop = worker.loops[0]
        bulk = [
            asyncio.create_task(client.infer("m", {"x": np.array([[0.05, n]], np.float32)}, lane=Lane.BULK))
            for n in range(WAITING)
        ]
        await until(lambda: Lane.BULK in loop.intake.reading.closed_lanes)
        await client.infer("m", {"x": np.array([[0.0, 1.0]], np.float32)}, lane=Lane.INTERACTIVE)
        assert sum(task.done() for task in bulk) < WAITING - 8  # it went before what was still in the log
        await asyncio.gather(*bulk)
        assert not loop.intake.reading.closed_lanes
