"""A worker starts or says in a sentence why not; a signal ends it at any moment, with the exit code that fits."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until, worker_settings

from producer_sdk import Client
from producer_sdk.admin import AdminServer
from producer_sdk.broker import Broker, BrokerError, Outgoing
from producer_sdk.kafka import KafkaBroker
from producer_sdk.memory import MemoryBroker
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Request, encode_request
from workers import serve
from workers.drain import Exit
from workers.loop import ModelLoop
from workers.serve import Worker

ONE = {"x": np.array([[1, 2]], np.float32)}
SLOW_LOAD = """
import time

class Model:
    def load(self, context):
        time.sleep(60)

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""
BROKEN_LOAD = "class Model:\n    def load(self, context):\n        raise OSError('the weights are not there')\n"


@asynccontextmanager
async def serving(
    broker: Broker, models: Path, prefix: str, **settings: object
) -> AsyncIterator[tuple[Worker, "Code"]]:
    """A worker that is only starting; it must have ended at the end."""
    worker = Worker(worker_settings(models, prefix, **settings), broker)
    task = asyncio.create_task(worker.serve(), name="worker")
    try:
        yield worker, task
    finally:
        worker.stop.signalled()
        worker.stop.signalled()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 15.0)


Code = asyncio.Task[Exit]


async def sleeps(client: Client, seconds: float) -> None:
    await client.publish("m", {"x": np.array([[seconds, 1]], np.float32)})


def unfinished(worker: Worker) -> str:
    return worker.loops[0].blockers()


async def test_a_broker_that_refuses_connections_is_an_error_in_a_sentence(prefix: str, tmp_path: Path) -> None:
    async with serving(KafkaBroker("127.0.0.1:1"), python_model(tmp_path, "m"), prefix) as (_, code):
        with pytest.raises(BrokerError, match="no connection to Kafka"):
            await code


async def test_a_signal_ends_a_start_that_waits_for_a_silent_broker(prefix: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = KafkaBroker(f"127.0.0.1:{silent.getsockname()[1]}")
        async with serving(broker, python_model(tmp_path, "m"), prefix) as (worker, code):
            await asyncio.sleep(0.5)
            began = time.monotonic()
            worker.stop.signalled()
            assert await code is Exit.CLEAN
            assert time.monotonic() - began < 10.0


async def test_an_admin_port_that_is_taken_stops_the_start(prefix: str, tmp_path: Path) -> None:
    taken = AdminServer("127.0.0.1", 0, live=lambda: None, ready=lambda: None, metrics=lambda: b"")
    taken.start()
    try:
        models = python_model(tmp_path, "m")
        async with serving(MemoryBroker(), models, prefix, admin_port=taken.port) as (_, code):
            with pytest.raises(OSError, match=f"{taken.port} cannot be listened on"):
                await code
    finally:
        taken.stop()


async def test_topics_that_are_missing_and_must_not_be_made_are_named(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with serving(broker, python_model(tmp_path, "m"), prefix, create_topics=False) as (_, code):
        with pytest.raises(BrokerError, match=r"\.m\.dead.*\.m\.retry do not exist: create them"):
            await code


async def test_a_worker_finds_topics_that_somebody_else_has_made(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m")
    async with running_worker(broker, models, prefix):
        pass
    async with running_worker(broker, models, prefix, create_topics=False), Client(broker, prefix=prefix) as client:
        assert (await client.infer("m", ONE)).outputs["y"].tolist() == [[2, 4]]


async def test_a_signal_while_a_model_loads_ends_worker_and_runner_at_once(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with serving(broker, python_model(tmp_path, "m", SLOW_LOAD), prefix) as (worker, code):
        await until(lambda: bool(runners()))
        assert worker.health.ready() == "the worker is starting: it waits for its models"
        began = time.monotonic()
        worker.stop.signalled()
        assert await code is Exit.CLEAN
        assert time.monotonic() - began < 10.0
        assert not runners()


def runners() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it may end between the two questions
            if "workers.runners.process" in each.cmdline():
                found.append(each)
    return found


async def test_all_pages_of_the_admin_port_answer_while_a_model_loads(
    broker: Broker, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.worker")
    async with serving(broker, python_model(tmp_path, "m", SLOW_LOAD), prefix) as (worker, _):
        await until(lambda: bool(worker.loops))
        port = next(record.port for record in caplog.records if hasattr(record, "port"))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            pages = [await http.get(page) for page in ("/livez", "/readyz", "/metrics")]
        assert [page.status_code for page in pages] == [200, 503, 200]
        assert 'headrace_backlog_requests{model="m"} 0.0' in pages[2].text


async def test_a_model_that_cannot_be_loaded_leaves_the_others_serving(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(python_model(tmp_path, "good"), "bad", BROKEN_LOAD)
    async with serving(broker, models, prefix) as (worker, code), Client(broker, prefix=prefix) as client:
        await until(lambda: worker.health.started)
        assert (await client.infer("good", ONE)).outputs["y"].tolist() == [[2, 4]]
        assert "model bad is not ready" in (worker.health.ready() or "")
        assert "the weights are not there" in (worker.health.ready() or "")
        worker.stop.signalled()
        assert await code is Exit.CLEAN


async def test_a_task_that_dies_ends_the_worker_though_another_model_still_loads(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, models = MemoryBroker(), python_model(python_model(tmp_path, "m"), "slow", SLOW_LOAD)
    async with serving(broker, models, prefix) as (worker, code), Client(broker, prefix=prefix) as client:
        await until(lambda: any(loop.serving for loop in worker.loops))

        async def fails() -> bool:
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(worker.loops[0].intake.committing, "commit", fails)
        await client.publish("m", ONE)
        assert await code is Exit.FAILED


async def test_a_batch_that_outlasts_the_drain_is_reported_and_run_again_by_the_next_worker(
    broker: Broker, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with Client(broker, prefix=prefix) as client:
        async with running_worker(broker, models, prefix, drain_timeout_s=0.2, expect=Exit.FORCED) as worker:
            asking = asyncio.create_task(client.infer("m", {"x": np.array([[1.0, 7]], np.float32)}))
            await until(lambda: "1 batches on the device" in unfinished(worker))
        assert "Stopped before everything was finished: model m: 1 batches on the device" in caplog.text
        async with running_worker(broker, models, prefix):
            assert (await asking).outputs["y"].tolist() == [[2, 14]]


async def test_a_second_signal_ends_the_drain_at_once(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with (
        Client(broker, prefix=prefix) as client,
        running_worker(broker, models, prefix, drain_timeout_s=60.0, expect=Exit.FORCED) as worker,
    ):
        await sleeps(client, 30.0)
        await until(lambda: "1 batches on the device" in unfinished(worker))
        worker.stop.signalled()
        await asyncio.sleep(0.1)
        began = time.monotonic()
        worker.stop.signalled()
        await until(lambda: not runners(), 5.0)
        assert time.monotonic() - began < 10.0


async def test_after_a_signal_it_serves_on_unready_through_the_endpoint_lag(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m")
    async with (
        Client(broker, prefix=prefix) as client,
        running_worker(broker, models, prefix, endpoint_lag_s=2.0) as worker,
    ):
        worker.stop.signalled()
        await until(lambda: worker.health.ready() == "the worker is stopping")
        assert (await client.infer("m", ONE)).outputs["y"].tolist() == [[2, 4]]  # nobody else could answer
        worker.stop.drain.clear()  # the rig's own signal shall be a first one


async def test_a_broker_that_falls_silent_costs_neither_the_exit_code_nor_more_than_the_budget(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "LEAVE_TIMEOUT_S", 0.2)
    broker, models = MemoryBroker(), python_model(tmp_path, "m")
    value = encode_request(Request("a", {"x": Tensor.from_array(ONE["x"])}))
    async with running_worker(broker, models, prefix, drain_timeout_s=0.3, expect=Exit.FORCED) as worker:
        producer = broker.producer()
        await producer.start()
        broker.hold_acknowledgements()
        await producer.publish(Topics(prefix).requests("m", "async"), Outgoing(None, value))
        await until(lambda: "1 replies not acknowledged" in unfinished(worker))
        began = time.monotonic()
    assert time.monotonic() - began < 6.0


async def test_a_drain_of_no_seconds_is_clean_where_there_is_nothing_to_do(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with running_worker(broker, python_model(tmp_path, "m"), prefix, drain_timeout_s=0.0) as worker:
        assert isinstance(worker.loops[0], ModelLoop)
        assert Topics(prefix).requests("m", "async") in await topics_of(broker)


async def topics_of(broker: Broker) -> list[str]:
    admin = broker.admin()
    await admin.start()
    names = list(await admin.topics())
    await admin.stop()
    return names
