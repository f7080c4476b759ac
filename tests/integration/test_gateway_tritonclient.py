"""What Triton's Python client sends over HTTP is answered so that it can read it.

The client itself is no dependency of the tests: `tritonclient[http]` asks for ml-dtypes of at most 0.5.4, headrace for
0.6 and later, so both cannot be installed together. The bodies below are what its version 2.73 sends, byte for byte.
"""

import json
import math
import struct
from collections.abc import AsyncIterator

import httpx
import pytest
from gateway_sockets import client_of

from gateway.parts import Parts
from gateway.settings import GatewaySettings
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker

HEADERS = {"User-Agent": "python/gevent-http-client-2.6.1"}
INFER = "/v2/models/mlp/infer"
INPUT = b'"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1.0,2.0]}]'
PLAIN = b"{" + INPUT + b',"parameters":{"binary_data_output":true}}'
FULL = (
    b'{"id":"q-1",' + INPUT + b',"outputs":[{"name":"y","parameters":{"binary_data":true}}]'
    b',"parameters":{"priority":1,"timeout":5000000}}'
)
UNASKED = b"{" + INPUT + b"}"
UNWANTED = (
    b"{" + INPUT + b',"outputs":[{"name":"y","parameters":{"binary_data":false}}],'
    b'"parameters":{"binary_data_output":true}}'
)
BINARY = (
    b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],'
    b'"parameters":{"binary_data_output":true}}'
)


@pytest.fixture
async def worker(memory: MemoryBroker) -> AsyncIterator[FakeWorker]:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(memory, "mlp", double) as worker:
        yield worker


@pytest.fixture
async def http(memory: MemoryBroker, worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    parts = Parts(GatewaySettings())
    async with parts.open(memory) as app, client_of(app, memory) as http:
        parts.health.starting = None
        http.headers.update(HEADERS)
        yield http


async def test_its_probes_are_answered(http: httpx.AsyncClient) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/mlp/ready"):
        assert (await http.get(path)).status_code == 200
    assert (await http.get("/v2")).json()["name"] == "headrace"
    assert (await http.get("/v2/models/mlp")).json()["versions"] == ["1"]


@pytest.mark.parametrize("body", [UNASKED, UNWANTED])
async def test_json_comes_back_where_nothing_else_is_wished(http: httpx.AsyncClient, body: bytes) -> None:
    response = await http.post(INFER, content=body)
    assert response.json()["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}]
    # Without this header the client reads the whole body as JSON.
    assert "inference-header-content-length" not in response.headers


@pytest.mark.parametrize("body", [PLAIN, FULL])
async def test_outputs_come_back_binary_where_that_is_wished(
    http: httpx.AsyncClient, worker: FakeWorker, body: bytes
) -> None:
    response = await http.post(INFER, content=body)
    assert numbers_of(response) == (2.0, 4.0)
    assert worker.received[0].parameters == ({"priority": 1} if body is FULL else {})


async def test_binary_tensors_go_both_ways(http: httpx.AsyncClient, worker: FakeWorker) -> None:
    headers = {"Inference-Header-Content-Length": str(len(BINARY))}
    for numbers in ((1.0, 2.0), (3.0, math.nan)):
        response = await http.post(INFER, content=BINARY + struct.pack("<2f", *numbers), headers=headers)
        assert numbers_of(response) == pytest.approx([2 * number for number in numbers], nan_ok=True)
    assert [bytes(each.inputs["x"].data) for each in worker.received] == [
        struct.pack("<2f", 1.0, 2.0),
        struct.pack("<2f", 3.0, math.nan),
    ]


def numbers_of(response: httpx.Response) -> tuple[float, ...]:
    """The output, which lies behind the JSON that describes it."""
    end = int(response.headers["inference-header-content-length"])
    assert response.headers["content-type"] == "application/octet-stream"
    (output,) = json.loads(response.content[:end])["outputs"]
    assert output == {"name": "y", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    return struct.unpack("<2f", response.content[end:])
