"""The SDK in both encodings, a plain Kafka producer, OIP REST and /v1/infer give the same outputs, id and version."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiokafka
import httpx
import numpy as np
import pytest
import pytest_asyncio
from model_folders import doubling_onnx, python_model
from worker_rig import GatewayProcess, WorkerProcess

from producer_sdk import Client
from producer_sdk.kafka import KafkaBroker

VERSION = "3"
ROWS = np.array([[1.5, -2], [3, 4]], np.float32)
JSON_INPUT = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1.5, -2, 3, 4]}
TEXT = [{"name": "prompt", "datatype": "BYTES", "shape": [1]}]
SHOUT = """
import numpy as np

class Model:
    def predict(self, inputs, parameters):
        words = [row[0].decode().upper() * parameters[n].get("times", 1) for n, row in enumerate(inputs["prompt"])]
        return {"output": np.array([[word.encode()] for word in words], object)}
"""


@pytest_asyncio.fixture
async def http(kafka_broker: KafkaBroker, prefix: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A worker process with an ONNX and a python model, and a gateway process before it."""
    models = doubling_onnx(tmp_path / "models", "double", version=VERSION)
    python_model(models, "shout", SHOUT, version=VERSION, inputs=TEXT, outputs=[TEXT[0] | {"name": "output"}])
    worker = WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / "worker.log")
    gateway = GatewayProcess(kafka_broker.bootstrap_servers, prefix, tmp_path / "gateway.log")
    worker.start()
    gateway.start()
    try:
        await worker.serves(models=2)
        await gateway.serves("shout")
        async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as client:
            yield client
    finally:
        gateway.kill()
        worker.kill()


async def raw_kafka(bootstrap_servers: str, prefix: str, body: dict[str, object]) -> tuple[bytes, dict[str, object]]:
    """Publish with plain aiokafka, no headers; the key and JSON of the reply on the results topic."""
    consumer = aiokafka.AIOKafkaConsumer(
        f"{prefix}.double.results", bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
    )
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
    await consumer.start()
    await producer.start()
    try:
        await producer.send_and_wait(f"{prefix}.double.async", json.dumps(body).encode())
        record = await consumer.getone()
        return record.key, json.loads(record.value)
    finally:
        await producer.stop()
        await consumer.stop()


@pytest.mark.timeout(180)
async def test_every_way_in_gives_the_same_outputs_id_and_version(
    kafka_broker: KafkaBroker, prefix: str, http: httpx.AsyncClient
) -> None:
    seen: list[tuple[object, object, object]] = []
    for encoding in ("msgpack", "json"):
        async with Client(kafka_broker, prefix=prefix, encoding=encoding) as client:
            reply = await client.infer("double", {"x": ROWS}, id=encoding)
            seen.append((reply.id, reply.version, reply.outputs["y"].tolist()))
    key, raw = await raw_kafka(kafka_broker.bootstrap_servers, prefix, {"id": "raw", "inputs": [JSON_INPUT]})
    assert key == b"raw"
    answer = await http.post("/v2/models/double/infer", json={"id": "rest", "inputs": [JSON_INPUT]})
    assert answer.headers["headrace-model-version"] == VERSION
    for body in (raw, answer.json()):
        seen.append((body["id"], body["model_version"], np.reshape(body["outputs"][0]["data"], (2, 2)).tolist()))
    expected = (ROWS * 2).tolist()
    assert seen == [(id, VERSION, expected) for id in ("msgpack", "json", "raw", "rest")]


@pytest.mark.timeout(180)
async def test_v1_infer_answers_a_prompt_with_its_id_and_version(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/infer", json={"model": "shout", "prompt": "höi", "id": "v1", "times": 2})
    body = answer.json()
    assert (answer.status_code, body["id"], body["output"]) == (200, "v1", "HÖIHÖI")
    assert body["latency_ms"] > 0
    assert answer.headers["headrace-model-version"] == VERSION


@pytest.mark.timeout(180)
async def test_a_wrong_request_is_the_same_error_on_every_way(
    kafka_broker: KafkaBroker, prefix: str, http: httpx.AsyncClient
) -> None:
    wrong = JSON_INPUT | {"shape": [4, 1]}
    _, raw = await raw_kafka(kafka_broker.bootstrap_servers, prefix, {"id": "raw", "inputs": [wrong]})
    rest = await http.post("/v2/models/double/infer", json={"id": "rest", "inputs": [wrong]})
    assert rest.status_code == 400
    assert (
        [set(raw), raw["code"]]
        == [set(rest.json()), rest.json()["code"]]
        == [{"id", "error", "code"}, "INVALID_REQUEST"]
    )
