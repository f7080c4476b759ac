"""20 MB in and 20 MB out on a broker that takes 1 MB, by SDK and by HTTP; without a bucket it is refused at once."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
from fake_payloads import FakePayloads
from s3 import S3Server

from gateway.parts import Parts
from gateway.settings import GatewaySettings
from producer_sdk import Client
from producer_sdk.broker import Broker
from producer_sdk.payloads import Payloads, S3Settings
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker

MEGABYTES_20 = 20_000_000
INFER = "/v2/models/same/infer"


def same(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"]}


@asynccontextmanager
async def gateway(broker: Broker, settings: GatewaySettings, s3: Payloads | None) -> AsyncIterator[httpx.AsyncClient]:
    parts = Parts(settings, s3)
    async with parts.open(broker) as app:
        parts.health.starting = None
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60) as http:
            yield http


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with a claim bucket."""
    broker, store = MemoryBroker(), FakePayloads()
    settings = GatewaySettings(s3_claim_bucket="claims")
    async with FakeWorker(broker, "same", same, s3=store), gateway(broker, settings, store) as http:
        yield http


def body(datatype: str, shape: list[int], data: Any, **parameters: str) -> bytes:
    item = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    return json.dumps({"inputs": [item | ({"parameters": parameters} if parameters else {})]}).encode()


async def test_20_mb_travel_both_ways_by_sdk(s3: S3Server) -> None:
    broker = MemoryBroker()
    settings = S3Settings(endpoint_url=s3.url, claim_bucket=s3.new_bucket())
    x = np.random.default_rng(1).integers(0, 256, (2, MEGABYTES_20 // 2), np.uint8)
    of_worker = Payloads(settings)
    try:
        async with FakeWorker(broker, "same", same, s3=of_worker), Client(broker, s3=settings) as client:
            reply = await client.infer("same", {"x": x})
            np.testing.assert_array_equal(reply.outputs["y"], x)
    finally:
        await of_worker.close()
    assert settings.claim_bucket is not None
    assert len(s3.keys(settings.claim_bucket)) == 2


async def test_20_mb_travel_both_ways_by_http(http: httpx.AsyncClient) -> None:
    raw = np.random.default_rng(1).bytes(MEGABYTES_20)
    data = [base64.b64encode(raw).decode()]
    answer = await http.post(INFER, content=body("BYTES", [1, 1], data, content_type="base64"))
    assert answer.status_code == 200
    [output] = answer.json()["outputs"]
    assert output["data"] == data


async def test_without_a_bucket_http_is_413_at_once_and_names_the_way_out() -> None:
    broker = MemoryBroker()
    async with FakeWorker(broker, "same", same), gateway(broker, GatewaySettings(), None) as http:
        fits_the_gateway = await http.post(INFER, content=body("UINT8", [1, 1_100_000], [0] * 1_100_000))
        fits_nothing = await http.post(INFER, content=b" " * (17 << 20))
    assert (fits_the_gateway.status_code, fits_the_gateway.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert "HEADRACE_S3_CLAIM_BUCKET" in fits_the_gateway.json()["error"]
    assert (fits_nothing.status_code, fits_nothing.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_references_and_stores_are_refused_over_http(http: httpx.AsyncClient) -> None:
    referring = await http.post(INFER, json={"dataref": "s3://claims/a"})
    storing = await http.post(INFER, json={"inputs": [], "parameters": {"reply_to": "s3://results/"}})
    assert (referring.status_code, storing.status_code) == (400, 400)
    assert "dataref is not taken over HTTP" in referring.json()["error"]
    assert "reply_to has no meaning over HTTP" in storing.json()["error"]


LARGE = 700_000
HALVES = np.tile(np.array([0.5, -0.0, 65504, 1e-7], np.float64), LARGE // 4)
ARRAYS = [
    HALVES.astype(np.float16),
    HALVES.astype(ml_dtypes.bfloat16),
    np.array([b"\xff" * LARGE, b"", b"\x00" * LARGE], object),
]


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
@pytest.mark.parametrize("array", ARRAYS, ids=["FP16", "BF16", "BYTES"])
async def test_half_floats_and_large_bytes_travel_exactly_by_sdk(array: Array, encoding: Any) -> None:
    broker, store = MemoryBroker(), FakePayloads()
    async with FakeWorker(broker, "same", same, s3=store), Client(broker, encoding=encoding, s3=store) as client:
        for x in (array[:3], array):
            reply = await client.infer("same", {"x": x})
            found = reply.outputs["y"]
            assert (found.dtype, found.tolist()) == (array.dtype, x.tolist())
    assert len(store.objects) == (4 if array.dtype == object else 2)  # of BYTES three elements are large, too


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
async def test_half_floats_travel_exactly_by_http(http: httpx.AsyncClient, datatype: str) -> None:
    data = [0.5, -0.0, 65280.0, "NaN", "-Infinity"] * 100_000
    answer = await http.post(INFER, content=body(datatype, [1, len(data)], data))
    [output] = answer.json()["outputs"]
    assert (output["datatype"], output["data"]) == (datatype, data)


async def test_large_bytes_travel_exactly_by_http(http: httpx.AsyncClient) -> None:
    raw = [bytes(range(256)) * 8_000, b""]
    data = [base64.b64encode(each).decode() for each in raw]
    answer = await http.post(INFER, content=body("BYTES", [1, 2], data, content_type="base64"))
    [output] = answer.json()["outputs"]
    assert [base64.b64decode(each) for each in output["data"]] == raw
