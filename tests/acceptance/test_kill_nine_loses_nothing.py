"""kill -9 of the runner or of the worker in mid-batch: every id ends with one visible answer."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import WorkerProcess, until

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.kafka import KafkaBroker

REQUESTS = 200
ROW_S = 0.02  # a batch of 8 sleeps so long: the whole takes about half a second

Answers = dict[str, list[Reply | HeadraceError]]


async def ask(client: Client, after: int, act: asyncio.Event) -> Answers:
    """Send the requests; set `act` when so many are answered. The answers by id."""
    answers: Answers = {}
    inputs = ({"x": np.array([[ROW_S, n]], np.float32)} for n in range(REQUESTS))
    async for answer in client.map("m", inputs, window=64, deadline_s=60):
        answers.setdefault(str(answer.id), []).append(answer)
        if sum(map(len, answers.values())) == after:
            act.set()
    return answers


def check(answers: Answers) -> None:
    assert len(answers) == REQUESTS
    assert all(len(each) == 1 and isinstance(each[0], Reply) for each in answers.values())
    numbers = sorted(each[0].outputs["y"][0, 1] / 2 for each in answers.values() if isinstance(each[0], Reply))
    assert numbers == list(range(REQUESTS))


@pytest.mark.timeout(180)
async def test_kill_nine_of_the_runner_in_mid_batch_loses_nothing(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path / "models", "m", SLEEPY, max_batch_size=8)
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log")
    worker.start()
    try:
        await worker.serves()
        act = asyncio.Event()
        async with Client(kafka_broker, prefix=prefix) as client:
            asking = asyncio.create_task(ask(client, 40, act))
            await act.wait()
            runners = [
                child for child in psutil.Process(worker.process.pid).children() if "runners" in str(child.cmdline())
            ]
            os.kill(runners[0].pid, signal.SIGKILL)
            check(await asking)
        assert "SIGKILL" in worker.log
    finally:
        worker.kill()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kafka_client", ["aiokafka", "librdkafka"])
async def test_kill_nine_of_the_worker_in_mid_batch_loses_nothing(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path, kafka_client: str
) -> None:
    models = python_model(tmp_path / "models", "m", SLEEPY, max_batch_size=8)
    given = {"HEADRACE_SESSION_TIMEOUT_S": "6", "HEADRACE_KAFKA_CLIENT": kafka_client}
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log", **given)
    worker.start()
    try:
        await worker.serves()
        runners = psutil.Process(worker.process.pid).children()
        act = asyncio.Event()
        async with Client(kafka_broker, prefix=prefix) as client:
            asking = asyncio.create_task(ask(client, 40, act))
            await act.wait()
            worker.kill()
            await until(lambda: not any(map(lives, runners)), 2.0)
            worker.start()
            check(await asking)
    finally:
        worker.kill()


@pytest.mark.timeout(180)
async def test_sigterm_answers_what_was_taken_commits_and_exits_clean(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path / "models", "m", SLEEPY, max_batch_size=1)
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log")
    worker.start()
    try:
        await worker.serves()
        async with Client(kafka_broker, prefix=prefix) as client:
            asking = [asyncio.create_task(client.infer("m", {"x": np.array([[0.3, n]], np.float32)})) for n in range(6)]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            worker.process.terminate()
            assert len(await asyncio.gather(*asking)) == 6
            assert await asyncio.to_thread(worker.process.wait, 15) == 0
    finally:
        worker.kill()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
