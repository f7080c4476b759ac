"""When workers join and leave, every request is answered; what has started is finished by who started it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker


@pytest.mark.timeout(180)
async def test_workers_that_join_and_leave_in_mid_work_leave_no_request_unanswered(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=4)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_worker(broker, models, prefix, session_timeout_s=6.0))
        client = await stack.enter_async_context(Client(broker, prefix=prefix))
        asking = asyncio.create_task(ask(client))
        for _ in range(3):
            async with running_worker(broker, models, prefix, session_timeout_s=6.0):
                await asyncio.sleep(0.5)
        answers = await asking
        assert first.loops[0].intake.assignments > 1
    assert sorted(answers) == list(range(400))


async def ask(client: Client) -> list[int]:
    inputs = ({"x": np.array([[0.01, n]], np.float32)} for n in range(400))
    answers: list[int] = []
    async for reply in client.map("m", inputs, window=32, deadline_s=60):
        assert not isinstance(reply, HeadraceError), reply
        answers.append(int(reply.outputs["y"][0, 1] / 2))
        await asyncio.sleep(0.01)
    return answers
