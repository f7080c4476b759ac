"""`headrace verify` as people and programs run it: what it prints, and how it exits."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from broker_clients import Clients
from made_topics import MODEL, MadeTopics, made_topics
from model_folders import SLEEPY, python_model
from worker_rig import WorkerProcess, until

from headrace.checker import check
from headrace.free_ports import free_port
from headrace.history import read_history
from producer_sdk import Client
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics

pytestmark = pytest.mark.timeout(180)  # each test starts the command, the first one also Kafka


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    out: str
    err: str


async def verify(bootstrap_servers: str, *arguments: str) -> Ended:
    command = [sys.executable, "-m", "headrace", "verify", "--bootstrap-servers", bootstrap_servers, *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def made(kafka_broker: KafkaBroker, prefix: str) -> AsyncIterator[MadeTopics]:
    async with Clients(kafka_broker, prefix) as clients, made_topics(clients) as made:
        yield made


async def verify_made(made: MadeTopics, *arguments: str) -> Ended:
    broker: Any = made.clients.broker
    return await verify(broker.bootstrap_servers, "--prefix", made.topics.prefix, "--model", MODEL, *arguments)


async def test_a_sound_model_is_a_table_a_sentence_and_exit_code_zero(made: MadeTopics) -> None:
    await made.request("a")
    await made.reply("a")
    await made.commit(1)
    ended = await verify_made(made)
    assert (ended.code, ended.err) == (0, "")
    assert "Nothing is lost" in ended.out


async def test_a_lost_request_is_named_and_exits_one(made: MadeTopics) -> None:
    await made.request("gone")
    await made.commit(1)
    ended = await verify_made(made, "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["lost"], report["lost_requests"][0]["id"]) == (1, 1, "gone")
    assert len(report["violations"]) == 1
    assert {"accepted", "answered", "dead", "waiting", "lost", "conflicting", "repeats", "unverifiable"} <= set(report)
    assert "request gone at" in (await verify_made(made)).out


async def test_contradictory_outcomes_exit_one(made: MadeTopics) -> None:
    await made.request("a")
    await made.reply("a")
    await made.reply("a", "INTERNAL")
    ended = await verify_made(made, "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["conflicting"], report["conflicting_requests"][0]["id"]) == (1, 1, "a")


async def test_repeats_and_waiting_requests_exit_zero(made: MadeTopics) -> None:
    await made.request("a")
    await made.request("b")
    await made.reply("a")
    await made.reply("a", "DEADLINE_EXCEEDED")
    ended = await verify_made(made, "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["repeats"], report["waiting"]) == (0, 1, 1)


async def test_a_model_that_is_not_there_is_a_sentence_and_exit_code_one(kafka_broker: KafkaBroker) -> None:
    ended = await verify(kafka_broker.bootstrap_servers, "--model", "nobody", "--json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("UNKNOWN_MODEL: there is no request topic of a model 'nobody'")


async def test_without_a_model_it_is_wrong_usage(kafka_broker: KafkaBroker) -> None:
    assert (await verify(kafka_broker.bootstrap_servers)).code == 2


async def test_without_kafka_it_says_so_and_exits_one() -> None:
    ended = await verify(f"127.0.0.1:{free_port()}", "--model", "m")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("INTERNAL: ")
    assert "Traceback" not in ended.err


async def test_a_worker_that_served_is_accounted_for(kafka_broker: KafkaBroker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path / "models", "m", SLEEPY, max_batch_size=8)
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "log", HEADRACE_EVENTS="true")
    worker.start()
    try:
        await worker.serves()
        async with Client(kafka_broker, prefix=prefix) as client:
            asking = [client.infer("m", {"x": np.array([[0.0, n]], np.float32)}) for n in range(50)]
            assert len(await asyncio.gather(*asking)) == 50
        worker.process.terminate()
        await until(lambda: worker.process.poll() is not None, 20.0)
    finally:
        worker.kill()
    ended = await verify(kafka_broker.bootstrap_servers, "--prefix", prefix, "--model", "m", "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["violations"]) == (0, [])
    assert [report[name] for name in ("accepted", "answered", "waiting", "lost", "repeats")] == [50, 50, 0, 0, 0]
    history = await read_history(kafka_broker, Topics(prefix), "m")
    assert len({each.id for each in history.started}) == 50
    assert sum(each.finished.base for each in history.commits if each.finished.base) >= 50
    assert check(history, limit=5, batch_s=1.0).violations == ()
