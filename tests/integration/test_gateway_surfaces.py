"""The gateway's surfaces from the outside, over the broker in memory."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from gateway_sockets import client_of

from gateway.parts import Parts
from gateway.settings import GatewaySettings
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.errors import HeadraceError
from producer_sdk.model_topics import model_topics
from producer_sdk.tensors import Array, Datatype
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

MLP = Announcement(
    "w0",
    "mlp",
    ("1", "2"),
    ModelState.READY,
    0,
    60.0,
    platform="onnx_onnxv1",
    inputs=(TensorAnnouncement("x", Datatype.FP32, (2,)),),
    outputs=(TensorAnnouncement("y", Datatype.FP32, (2,)),),
    max_batch_size=4,
)
BODY = {"id": "req-1", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
INFER = "/v2/models/mlp/infer"


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


class Rig:
    """A gateway over a broker in memory, and an HTTP client of it."""

    def __init__(self, broker: MemoryBroker, parts: Parts, http: httpx.AsyncClient) -> None:
        self.broker = broker
        self.parts = parts
        self.http = http

    async def announce(self, **changed: Any) -> None:
        fields = {name: getattr(MLP, name) for name in MLP.__struct_fields__}
        announcement = Announcement(**{**fields, "at_ms": int(time.time() * 1000), **changed})
        admin, producer = self.broker.admin(), self.broker.producer()
        await admin.create_topics(model_topics(Topics(), announcement.model, partitions=1))
        await producer.start()
        record = Outgoing(announcement.key, encode_announcement(announcement))
        await (await producer.publish(Topics().control, record))
        await producer.stop()
        for _ in range(500):
            if (await self.http.get(f"/v2/models/{announcement.model}")).json().get("inputs"):
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the announcement was not read")

    async def infer(self, body: object = BODY, path: str = INFER) -> httpx.Response:
        return await self.http.post(path, json=body)


@pytest.fixture
async def rig(memory: MemoryBroker) -> AsyncIterator[Rig]:
    parts = Parts(GatewaySettings(max_inflight_per_model=1, max_body_bytes=4096))
    async with parts.open(memory) as app, client_of(app, memory) as http:
        parts.health.starting = None
        yield Rig(memory, parts, http)


@pytest.fixture
async def mlp(rig: Rig) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(rig.broker, "mlp", double, version="2") as worker:
        await rig.announce()
        yield worker


def error_of(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) >= {"id", "error", "code"}
    assert isinstance(body["error"], str)
    assert "headrace-model-version" in response.headers
    assert response.headers["headrace-request-id"] == body["id"]
    return response.status_code, body["code"]


async def test_an_inference_comes_back_as_the_protocol_says(rig: Rig, mlp: FakeWorker) -> None:
    response = await rig.infer()
    body = response.json()
    assert (body["id"], body["model_name"], body["model_version"]) == ("req-1", "mlp", "2")
    assert body["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}]
    assert response.headers["headrace-model-version"] == "2"


async def test_options_reach_the_worker_and_not_the_model(rig: Rig, mlp: FakeWorker) -> None:
    await rig.infer(
        {**BODY, "parameters": {"deadline_s": 7, "tenant": "t", "top_k": 3}}, INFER.replace("mlp/", "mlp/versions/2/")
    )
    (request,) = mlp.received
    assert (request.tenant, request.version, request.parameters) == ("t", "2", {"top_k": 3})
    assert request.deadline_ms is not None
    assert 5000 < request.deadline_ms - time.time() * 1000 <= 7000


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({**BODY, "parameters": {"reply_to": "headrace.mlp.results"}}, "reply_to has no meaning over HTTP"),
        ({**BODY, "parameters": {"version": "9"}}, None),
        ({**BODY, "parameters": {"deadline_s": 1e6}}, "longer than the 3600 s"),
        ({**BODY, "outputs": [{"name": "z"}]}, "there is no output 'z'"),
        ({"inputs": []}, "input 'x' is missing"),
        ({**BODY, "inputs": [{"name": "x", "shape": [5, 2], "datatype": "FP32", "data": [0] * 10}]}, "5 rows"),
        ({**BODY, "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}]}, "takes FP32"),
        ([], "the request is a list, but must be an object"),
        ({**BODY, "inputs": 5}, "inputs is a whole number, but must be a list"),
        (
            {**BODY, "inputs": [{"name": "x", "shape": [1, 2], "datatype": "float32", "data": [1, 2]}]},
            "INT64, FP16, FP32",
        ),
        ({**BODY, "id": "a b"}, "id"),
    ],
)
async def test_a_bad_request_never_reaches_the_worker(
    rig: Rig, mlp: FakeWorker, body: object, sentence: str | None
) -> None:
    response = await rig.infer(body)
    expected = (404, "UNKNOWN_MODEL") if sentence is None else (400, "INVALID_REQUEST")
    assert error_of(response) == expected
    assert (sentence or "no version '9'") in response.json()["error"]
    assert (mlp.received, response.headers["headrace-model-version"]) == ([], "2")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"id": "\xff"}', b"[" * 4000, b"null"])
async def test_a_body_that_is_no_json_is_a_typed_error(rig: Rig, mlp: FakeWorker, body: bytes) -> None:
    for path in (INFER, "/v1/infer"):
        assert error_of(await rig.http.post(path, content=body)) == (400, "INVALID_REQUEST")


async def test_a_body_past_the_cap_is_refused(rig: Rig, mlp: FakeWorker) -> None:
    assert error_of(await rig.http.post(INFER, content=b" " * 5000)) == (413, "PAYLOAD_TOO_LARGE")
    assert rig.parts.admission.body_bytes == 0


@pytest.mark.parametrize("length", ["x", "-1", "9999", "9" * 4000])
async def test_a_length_of_the_json_that_cannot_be_is_refused(rig: Rig, mlp: FakeWorker, length: str) -> None:
    response = await rig.http.post(INFER, json=BODY, headers={"Inference-Header-Content-Length": length})
    assert error_of(response) == (400, "INVALID_REQUEST")
    assert "Inference-Header-Content-Length" in response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "INVALID_REQUEST"),
        ("GET", "/v2/models", 404, "INVALID_REQUEST"),
        ("POST", "/v2/models/%zz/infer", 400, "INVALID_REQUEST"),
        ("GET", "/%ff", 400, "INVALID_REQUEST"),
        ("GET", INFER, 405, "INVALID_REQUEST"),
        ("DELETE", "/v2", 405, "INVALID_REQUEST"),
        ("GET", "/v2/models/other", 404, "UNKNOWN_MODEL"),
        ("GET", "/v2/models/other/ready", 404, "UNKNOWN_MODEL"),
        ("POST", "/v2/models/other/infer", 404, "UNKNOWN_MODEL"),
        ("POST", "/v2/models/a.b/infer", 404, "UNKNOWN_MODEL"),
        ("GET", "/v2/models/mlp/versions/7", 404, "UNKNOWN_MODEL"),
    ],
)
async def test_what_is_not_there_is_a_typed_error(
    rig: Rig, mlp: FakeWorker, method: str, path: str, status: int, code: str
) -> None:
    assert error_of(await rig.http.request(method, httpx.URL("http://gateway", raw_path=path.encode()))) == (
        status,
        code,
    )


@pytest.mark.parametrize("state", [ModelState.LOADING, ModelState.UNAVAILABLE])
async def test_a_model_that_is_not_ready_is_a_503_at_once(rig: Rig, state: ModelState) -> None:
    await rig.announce(state=state, reason="the file is broken")
    for response in (await rig.infer(), await rig.http.get("/v2/models/mlp/ready")):
        assert error_of(response) == (503, "MODEL_NOT_READY")
        assert response.json()["error"] == f"model 'mlp' is {state}: the file is broken"
        assert int(response.headers["retry-after"]) > 0
    assert (await rig.http.get("/v2/models/mlp")).json()["inputs"][0]["name"] == "x"


async def test_a_model_with_topics_and_no_worker_is_not_unknown(rig: Rig) -> None:
    await rig.broker.admin().create_topics(model_topics(Topics(), "gone", partitions=1))
    assert error_of(await rig.infer(path="/v2/models/gone/infer")) == (503, "MODEL_NOT_READY")


async def test_metadata_comes_from_announcements(rig: Rig, mlp: FakeWorker) -> None:
    body = (await rig.http.get("/v2/models/mlp")).json()
    assert body["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert (body["name"], set(body["versions"]), body["platform"]) == ("mlp", {"1", "2"}, "onnx_onnxv1")
    older = await rig.http.get("/v2/models/mlp/versions/1")
    assert (older.json()["inputs"], older.headers["headrace-model-version"]) == ([], "1")


async def test_the_server_tells_what_it_is_and_how_it_is(rig: Rig, mlp: FakeWorker) -> None:
    assert (await rig.http.get("/v2")).json()["name"] == "headrace"
    assert (await rig.http.get("/v2/health/live")).json() == {"live": True}
    assert (await rig.http.get("/v2/health/ready")).json() == {"ready": True}
    assert (await rig.http.get("/v2/models/mlp/ready")).json() == {"name": "mlp", "ready": True}
    assert (await rig.http.get("/")).json()["models"] == ["mlp"]


async def test_a_stopping_gateway_is_not_ready_but_answers(rig: Rig, mlp: FakeWorker) -> None:
    rig.parts.health.stopping = True
    assert error_of(await rig.http.get("/v2/health/ready")) == (503, "MODEL_NOT_READY")
    assert (await rig.infer()).status_code == 200


async def test_errors_of_the_model_keep_their_code(rig: Rig) -> None:
    async with FakeWorker(rig.broker, "mlp", HeadraceError.from_code("OUT_OF_MEMORY", "too much"), version="2"):
        await rig.announce()
        response = await rig.infer()
    assert error_of(response) == (503, "OUT_OF_MEMORY")
    assert (response.json()["id"], response.headers["headrace-model-version"]) == ("req-1", "2")


async def test_a_full_model_is_a_503_with_a_time_to_come_back(rig: Rig, mlp: FakeWorker) -> None:
    with rig.parts.admission.slot("mlp"):
        response = await rig.infer()
    assert error_of(response) == (503, "QUEUE_FULL")
    assert response.headers["retry-after"] == "1"
    assert (await rig.infer()).status_code == 200


async def test_no_answer_in_time_is_a_504(rig: Rig) -> None:
    await rig.announce()
    response = await rig.infer({**BODY, "parameters": {"deadline_s": 0.05}})
    assert error_of(response) == (504, "DEADLINE_EXCEEDED")
    assert rig.parts.admission.inflight_by_model == {}


async def test_unknown_names_do_not_grow_the_metrics(rig: Rig, mlp: FakeWorker) -> None:
    for number in range(5):
        await rig.infer(path=f"/v2/models/guess-{number}/infer")
    await rig.infer()
    text = rig.parts.metrics.text().decode()
    assert 'requests_total{code="UNKNOWN_MODEL",model="unknown",surface="oip"} 5.0' in text
    assert 'requests_total{code="OK",model="mlp",surface="oip"} 1.0' in text
    assert "guess" not in text


async def test_nan_and_bytes_travel_by_the_rule_of_the_protocol(rig: Rig) -> None:
    def special(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"f": np.array([[np.nan, np.inf]]), "b": np.array([[b"\xff"]], object)}

    async with FakeWorker(rig.broker, "mlp", special, version="2"):
        await rig.announce()
        outputs = {output["name"]: output for output in (await rig.infer()).json()["outputs"]}
    assert outputs["f"]["data"] == ["NaN", "Infinity"]
    assert (outputs["b"]["data"], outputs["b"]["parameters"]) == (["/w=="], {"content_type": "base64"})


async def test_a_request_waits_in_the_queue_while_a_ready_model_restarts(rig: Rig) -> None:
    await rig.announce()
    asked = asyncio.create_task(rig.infer())
    await asyncio.sleep(0.3)
    assert not asked.done()
    async with FakeWorker(rig.broker, "mlp", double, version="2"):
        assert (await asked).status_code == 200


async def test_a_reason_reaches_callers_without_the_servers_paths(rig: Rig) -> None:
    reason = "cannot load '/srv/models/mlp/1/model.py'; its last words: Traceback"
    await rig.announce(state=ModelState.UNAVAILABLE, reason=reason)
    for response in (await rig.infer(), await rig.http.get("/v2/models/mlp/ready")):
        assert response.json()["error"] == "model 'mlp' is UNAVAILABLE: cannot load 'model.py'"
