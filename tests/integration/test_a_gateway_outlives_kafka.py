"""A gateway waits for a Kafka that starts later, says when Kafka is away, and serves on when it is back."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from gateway_process import Started, started

from headrace.free_ports import free_port
from headrace.local_kafka import LocalKafka
from producer_sdk.kafka import KafkaBroker, KafkaOptions
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker

BODY = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
INFER = "/v2/models/mlp/infer"

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[LocalKafka]:
    """A broker that may be frozen and killed."""
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture
def late_kafka() -> Iterator[LocalKafka]:
    """A broker that does not run yet."""
    kafka = LocalKafka(port=free_port())
    yield kafka
    kafka.stop()


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


async def infer(gateway: Started) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        return await http.post(INFER, json=BODY)


async def test_the_start_waits_for_a_kafka_that_comes_later(late_kafka: LocalKafka, prefix: str) -> None:
    async with started(late_kafka.bootstrap_servers, prefix) as gateway:
        await gateway.until("/readyz", 503)
        await asyncio.sleep(3)
        assert (await gateway.until("/livez", 200)).json()["live"] is True
        waiting = await gateway.until("/readyz", 503)
        assert "nothing answers there" in waiting.json()["reason"]
        await asyncio.to_thread(late_kafka.start)
        await gateway.until("/readyz", 200)
        assert len(gateway.log_lines("The gateway waits for Kafka, at most 60 s")) == 1
        assert gateway.log_lines("aiokafka") == []
        assert await gateway.stop() == 0


async def test_no_kafka_ends_the_start_when_its_time_is_up(prefix: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with started(address, prefix, start_timeout_s="3") as gateway:
        begun = time.monotonic()
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 1
        assert time.monotonic() - begun > 3
        sentence = f"cannot serve: no connection to Kafka at {address}: nothing answers there (tried for 3 s)"
        assert len(gateway.log_lines(sentence)) == 1


@pytest.mark.parametrize("loss", ["frozen", "killed"])
async def test_a_lost_kafka_is_blamed_and_its_return_is_told(own_kafka: LocalKafka, prefix: str, loss: str) -> None:
    broker = KafkaBroker(own_kafka.bootstrap_servers, options=KafkaOptions(request_timeout_s=3.0))
    async with FakeWorker(broker, "mlp", double, prefix=prefix), started(broker.bootstrap_servers, prefix) as gateway:
        await gateway.until("/readyz", 200)
        await gateway.until("/v2/models/mlp/ready", 200, gateway.url)
        await asyncio.to_thread(own_kafka.pause if loss == "frozen" else own_kafka.kill)
        lost_at = time.monotonic()
        reason = (await gateway.until("/readyz", 503)).json()["reason"]
        assert time.monotonic() - lost_at < 10
        said = f"Kafka at {own_kafka.bootstrap_servers} has not answered for "
        assert reason.startswith(said)
        refused = await infer(gateway)
        assert (refused.status_code, refused.json()["code"]) == (503, "MODEL_NOT_READY")
        assert refused.json()["error"].startswith(said)
        await asyncio.to_thread(own_kafka.resume if loss == "frozen" else own_kafka.start)
        await gateway.until("/readyz", 200)
        assert len(gateway.log_lines(said)) == 1
        assert len(gateway.log_lines("answers again, after ")) == 1
        await gateway.until("/v2/models/mlp/ready", 200, gateway.url)
        answered = await infer(gateway)
        assert (answered.status_code, answered.json().get("code")) == (200, None), answered.text
