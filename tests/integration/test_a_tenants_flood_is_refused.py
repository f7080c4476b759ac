"""A tenant that publishes more than its model allows is refused at once; the others wait behind none of it."""

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, HeadraceError, Lane
from producer_sdk.broker import Broker

FLOOD, QUOTA = 100, 4


async def test_a_flood_is_answered_at_once_and_does_not_fill_the_lane(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1, tenants={"max_waiting": QUOTA})
    codes: Counter[str] = Counter()

    async def ask(client: Client, seconds: float, tenant: str) -> None:
        try:
            await client.infer("m", {"x": np.array([[seconds, 1]], np.float32)}, tenant=tenant, lane=Lane.INTERACTIVE)
            codes["OK"] += 1
        except HeadraceError as err:
            codes[err.code] += 1

    async with (
        running_worker(broker, models, prefix, max_backlog_requests=8) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        loop = worker.loops[0]
        slow = asyncio.create_task(ask(client, 3.0, "flood"))
        await until(lambda: loop.dispatcher.running == 1)
        flood = [asyncio.create_task(ask(client, 0.0, "flood")) for _ in range(FLOOD)]
        await until(lambda: codes["QUOTA_EXCEEDED"] >= FLOOD - QUOTA - 1)  # of which one may lie ready on the device
        assert not slow.done(), "refused while the device was busy, not when it had run what came before"
        assert not loop.intake.reading.closed_lanes
        await ask(client, 0.0, "other")
        await asyncio.gather(slow, *flood)
        assert codes["OK"] + codes["QUOTA_EXCEEDED"] == FLOOD + 2
        assert loop.metrics.counters["over_quota"]() == codes["QUOTA_EXCEEDED"]
