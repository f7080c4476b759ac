"""The gateway as a process on Apache Kafka: it tells when it is ready, answers, and ends in order."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from headrace.free_ports import free_port
from headrace.local_kafka import LocalKafka
from producer_sdk.announcements import Announcement, ModelState, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.kafka import KafkaBroker
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker
from producer_sdk.topics import Topics

BODY = {"id": "req-1", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
INFER = "/v2/models/mlp/infer"

pytestmark = pytest.mark.timeout(60)


class Started:
    def __init__(self, process: Process, port: int, admin_port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{admin_port}"

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 20)

    async def until(self, path: str, status: int, url: str | None = None) -> httpx.Response:
        async with httpx.AsyncClient(base_url=url or self.admin_url) as http:
            for _ in range(400):
                try:
                    response = await http.get(path)
                    if response.status_code == status:
                        return response
                except httpx.TransportError:
                    pass  # it does not listen yet
                await asyncio.sleep(0.05)
        raise AssertionError(f"{path} did not become {status}")


@asynccontextmanager
async def started(bootstrap_servers: str, prefix: str, **settings: str) -> AsyncIterator[Started]:
    port, admin_port = free_port(), free_port()
    given = {"bootstrap_servers": bootstrap_servers, "prefix": prefix, "port": port, "admin_port": admin_port}
    given |= {"host": "127.0.0.1", "endpoint_lag_s": 0, **settings}
    environment = {**os.environ, **{f"HEADRACE_{name.upper()}": str(value) for name, value in given.items()}}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gateway", env=environment)
    try:
        yield Started(process, port, admin_port)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


async def announce_without_worker(broker: KafkaBroker, topics: Topics) -> None:
    admin, producer = broker.admin(), broker.producer()
    await admin.start()
    await ensure_system_topics(admin, topics)
    await admin.create_topics(model_topics(topics, "mlp", partitions=1))
    await admin.stop()
    announcement = Announcement("w0", "mlp", ("1",), ModelState.READY, round(time.time() * 1000), 3600.0)
    await producer.start()
    await (await producer.publish(topics.control, Outgoing(announcement.key, encode_announcement(announcement))))
    await producer.stop()


async def test_a_request_is_answered_and_sigterm_ends_the_process(kafka: LocalKafka, prefix: str) -> None:
    broker = KafkaBroker(kafka.bootstrap_servers)
    async with FakeWorker(broker, "mlp", double, prefix=prefix), started(kafka.bootstrap_servers, prefix) as gateway:
        await gateway.until("/readyz", 200)
        await gateway.until("/v2/models/mlp/ready", 200, gateway.url)
        async with httpx.AsyncClient(base_url=gateway.url) as http:
            response = await http.post(INFER, json=BODY)
        assert response.json()["outputs"][0]["data"] == [2.0, 4.0]
        assert (response.json()["id"], response.headers["headrace-model-version"]) == ("req-1", "1")
        metrics = (await gateway.until("/metrics", 200)).text
        assert 'headrace_gateway_requests_total{code="OK",model="mlp",surface="oip"} 1.0' in metrics
        assert await gateway.stop() == 0


async def test_a_request_in_flight_is_finished_after_sigterm(kafka: LocalKafka, prefix: str) -> None:
    topics = Topics(prefix)
    await announce_without_worker(KafkaBroker(kafka.bootstrap_servers), topics)
    async with started(kafka.bootstrap_servers, prefix) as gateway, httpx.AsyncClient(base_url=gateway.url) as http:
        await gateway.until("/readyz", 200)
        asked = asyncio.create_task(http.post(INFER, json={**BODY, "parameters": {"deadline_s": 2}}))
        await asyncio.sleep(1)
        ended = asyncio.create_task(gateway.stop())
        response = await asked
        assert (response.status_code, response.json()["code"]) == (504, "DEADLINE_EXCEEDED")
        assert await ended == 0


async def test_what_outlives_the_drain_time_is_cut_off_and_said(kafka: LocalKafka, prefix: str) -> None:
    await announce_without_worker(KafkaBroker(kafka.bootstrap_servers), Topics(prefix))
    async with started(kafka.bootstrap_servers, prefix, drain_timeout_s="0.5") as gateway, httpx.AsyncClient() as http:
        await gateway.until("/readyz", 200)
        asked = asyncio.create_task(http.post(gateway.url + INFER, json=BODY, timeout=30))
        await asyncio.sleep(1)
        assert await gateway.stop() == 3
        try:
            assert (await asked).json()["code"] == "CANCELLED"
        except httpx.TransportError:
            pass  # its connection ended first


async def test_it_serves_on_until_load_balancers_have_heard(kafka: LocalKafka, prefix: str) -> None:
    async with started(kafka.bootstrap_servers, prefix, endpoint_lag_s="1.5") as gateway:
        await gateway.until("/readyz", 200)
        ended = asyncio.create_task(gateway.stop())
        assert (await gateway.until("/readyz", 503)).json()["reason"] == "the gateway is stopping"
        assert (await gateway.until("/v2", 200, gateway.url)).json()["name"] == "headrace"
        assert await ended == 0


async def test_no_kafka_is_said_and_ends_the_start(prefix: str) -> None:
    async with started(f"127.0.0.1:{free_port()}", prefix, start_timeout_s="3") as gateway:
        waiting = await gateway.until("/readyz", 503)
        assert "waiting for Kafka" in waiting.json()["reason"]
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 1
