"""The gateway as a process on Apache Kafka: it tells when it is ready, answers, and ends in order."""

import asyncio
import time

import httpx
import pytest
from gateway_process import started

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

pytestmark = pytest.mark.timeout(180)


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


async def announce_without_worker(broker: KafkaBroker, topics: Topics) -> None:
    admin, producer = broker.admin(), broker.producer()
    await admin.start()
    await ensure_system_topics(admin, topics)
    await admin.create_topics(model_topics(topics, "mlp", partitions=1))
    await admin.stop()
    announcement = Announcement("w0", "mlp", ("1",), ModelState.READY, int(time.time() * 1000), 60.0)
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
