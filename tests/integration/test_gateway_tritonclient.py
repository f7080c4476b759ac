"""What Triton's Python client sends over HTTP is answered so that it can read it.

The client itself is no dependency of the tests: `tritonclient[http]` asks for ml-dtypes of at most 0.5.4, headrace for
0.6 and later, so both cannot be installed together. The bodies below are what its version 2.73 sends, byte for byte.
"""

from collections.abc import AsyncIterator

import httpx
import pytest

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
BINARY = (
    b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],'
    b'"parameters":{"binary_data_output":true}}'
)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def worker(broker: MemoryBroker) -> AsyncIterator[FakeWorker]:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(broker, "mlp", double) as worker:
        yield worker


@pytest.fixture
async def http(broker: MemoryBroker, worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    parts = Parts(GatewaySettings())
    async with parts.open(broker) as app:
        parts.health.starting = None
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=HEADERS) as http:
            yield http


async def test_its_probes_are_answered(http: httpx.AsyncClient) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/mlp/ready"):
        assert (await http.get(path)).status_code == 200
    assert (await http.get("/v2")).json()["name"] == "headrace"
    assert (await http.get("/v2/models/mlp")).json()["versions"] == ["1"]


@pytest.mark.parametrize("body", [PLAIN, FULL])
async def test_json_tensors_come_back_as_json(http: httpx.AsyncClient, worker: FakeWorker, body: bytes) -> None:
    response = await http.post(INFER, content=body)
    assert response.json()["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}]
    # Without this header the client reads the whole body as JSON, whatever it wished for.
    assert "inference-header-content-length" not in response.headers
    assert worker.received[0].parameters == ({"priority": 1} if body is FULL else {})


async def test_binary_tensors_are_refused_with_the_way_out(http: httpx.AsyncClient, worker: FakeWorker) -> None:
    headers = {"Inference-Header-Content-Length": str(len(BINARY))}
    response = await http.post(INFER, content=BINARY + bytes(8), headers=headers)
    assert (response.status_code, worker.received) == (400, [])
    assert "binary_data=False" in response.json()["error"]
