"""POST /v1/infer: a prompt in, an output out, over the broker in memory."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from gateway.parts import Parts
from gateway.settings import GatewaySettings
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.tensors import Array, Datatype
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

PROMPT = TensorAnnouncement("prompt", Datatype.BYTES, (1, -1))
OUTPUT = TensorAnnouncement("output", Datatype.BYTES, (1,))
SCORES = TensorAnnouncement("scores", Datatype.FP32, (-1,))


def shout(inputs: dict[str, Array]) -> dict[str, Array]:
    prompt = inputs["prompt"]
    return {
        "scores": np.array([[0.5, np.nan]], np.float32),
        "output": np.array([[prompt.item().upper() + str(prompt.shape).encode()]], object),
    }


@asynccontextmanager
async def gateway(*, memory: MemoryBroker, v1_model: str | None = None) -> AsyncIterator[Any]:
    parts = Parts(GatewaySettings(v1_model=v1_model))
    async with parts.open(memory) as app:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            yield http


async def announce(memory: MemoryBroker, model: str = "shouter", age_s: float = 0.0, **changed: Any) -> None:
    now_ms = round((time.time() - age_s) * 1000)
    fields: dict[str, Any] = {"inputs": (PROMPT,), "outputs": (SCORES, OUTPUT), "at_ms": now_ms, "heartbeat_s": 60.0}
    announcement = Announcement("w0", model, ("1",), ModelState.READY, **{**fields, **changed})
    admin, producer = memory.admin(), memory.producer()
    await ensure_system_topics(admin, Topics())
    await producer.start()
    await (
        await producer.publish(
            Topics().control, Outgoing(announcement.key, encode_announcement(announcement), (), now_ms)
        )
    )
    await producer.stop()


@pytest.fixture
def memory() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def shouter(memory: MemoryBroker) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(memory, "shouter", shout) as worker:
        await announce(memory)
        yield worker


async def test_a_prompt_becomes_one_row_and_the_output_text(memory: MemoryBroker, shouter: FakeWorker) -> None:
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", json={"prompt": "grüße", "id": "req-1"})
    body = response.json()
    assert (body["id"], body["output"]) == ("req-1", "GRüßE(1, 1, 1)")
    assert (set(body), 0 < body["latency_ms"] < 10_000) == ({"id", "output", "latency_ms"}, True)
    assert response.headers["headrace-model-version"] == "1"


async def test_terms_keep_their_meaning_and_other_scalars_reach_the_model(
    memory: MemoryBroker, shouter: FakeWorker
) -> None:
    asked = {
        "model": "shouter",
        "prompt": "a",
        "version": "1",
        "tenant": "t",
        "deadline_s": 5,
        "top_k": 3,
        "timeout": 9,
    }
    async with gateway(memory=memory) as http:
        assert (await http.post("/v1/infer", json={**asked, "id": None})).status_code == 200
    (request,) = shouter.received
    assert (request.version, request.tenant, request.outputs) == ("1", "t", ("output",))
    assert request.parameters == {"top_k": 3, "timeout": 9}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "'prompt' is missing"),
        ({"prompt": 7}, "'prompt' must be text"),
        ({"prompt": "a", "model": 7}, "'model' must be text"),
        ({"prompt": "a", "reply_to": "headrace.x.results"}, "reply_to has no meaning over HTTP"),
        ({"prompt": "a", "stop": ["x"]}, "'stop' must be text, a number or a boolean"),
        ({"prompt": "a", "stop": None}, "'stop' must be text, a number or a boolean"),
        ({"prompt": "a", "deadline_s": -1}, "deadline_s"),
        ({"prompt": "a", "version": True}, "version"),
        ({"prompt": "a", "id": "no spaces"}, "id"),
        ({"prompt": "a", "big": 2**70}, "big"),
    ],
)
async def test_a_bad_request_is_refused(
    memory: MemoryBroker, shouter: FakeWorker, body: dict[str, object], sentence: str
) -> None:
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "INVALID_REQUEST")
    assert sentence in response.json()["error"]
    assert shouter.received == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"prompt": "a", "prompt": "b"}', "an object holds the key 'prompt' twice"),
        (b'{"prompt": "a: b", "prom\\u0070t": "c"}', "an object holds the key 'prompt' twice"),
        (b"[]", "the body is a list, but must be an object"),
        (b"prompt=a", "the body is no JSON: it has a fault at byte 0: invalid character"),
    ],
)
async def test_a_body_that_can_be_misread_is_refused(
    memory: MemoryBroker, shouter: FakeWorker, body: bytes, sentence: str
) -> None:
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", content=body)
    assert (response.status_code, response.json()["error"]) == (400, sentence)
    assert shouter.received == []


async def test_half_a_surrogate_pair_is_no_text(memory: MemoryBroker, shouter: FakeWorker) -> None:
    async with gateway(memory=memory) as http:
        for body in (b'{"prompt": "\\ud800"}', b'{"prompt": "a", "note": "\\ud800"}', b'{"prompt": "a", "\\ud800": 1}'):
            response = await http.post("/v1/infer", content=body)
            assert (response.status_code, response.json()["code"]) == (400, "INVALID_REQUEST")


async def test_without_a_name_the_single_model_is_meant(memory: MemoryBroker, shouter: FakeWorker) -> None:
    async with gateway(memory=memory) as http:
        assert (await http.post("/v1/infer", json={"prompt": "a"})).status_code == 200
    await announce(memory, "other")
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", json={"prompt": "a"})
    assert response.status_code == 400
    assert "'other', 'shouter'" in response.json()["error"]


async def test_without_any_model_the_caller_is_told_to_come_back(memory: MemoryBroker) -> None:
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", json={"prompt": "a"})
    assert (response.status_code, response.json()["code"]) == (503, "MODEL_NOT_READY")


async def test_a_model_whose_workers_are_gone_is_not_among_several(memory: MemoryBroker, shouter: FakeWorker) -> None:
    await announce(memory, "other", age_s=200.0)
    async with gateway(memory=memory) as http:
        assert len((await http.get("/")).json()["models"]) == 2
        assert (await http.post("/v1/infer", json={"prompt": "a"})).status_code == 200


async def test_the_setting_says_which_model_is_meant(memory: MemoryBroker, shouter: FakeWorker) -> None:
    await announce(memory, "other")
    async with gateway(memory=memory, v1_model="shouter") as http:
        assert (await http.post("/v1/infer", json={"prompt": "a"})).status_code == 200
    async with gateway(memory=memory, v1_model="away") as http:
        assert (await http.post("/v1/infer", json={"prompt": "a"})).json()["code"] == "UNKNOWN_MODEL"


async def test_other_outputs_are_lists_without_the_row_axis(memory: MemoryBroker, shouter: FakeWorker) -> None:
    await announce(memory, v1_output="scores")
    async with gateway(memory=memory) as http:
        assert (await http.post("/v1/infer", json={"prompt": "a"})).json()["output"] == [0.5, "NaN"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"v1_input": "question"}, "no input 'question' to take the prompt: it has prompt"),
        ({"inputs": (TensorAnnouncement("prompt", Datatype.FP32, (1,)),)}, "is FP32, no text"),
        ({"inputs": (TensorAnnouncement("prompt", Datatype.BYTES, (3,)),)}, "takes 3 texts a row"),
        ({"inputs": (PROMPT, TensorAnnouncement("k", Datatype.FP32, (1,)))}, "input 'k' is missing"),
    ],
)
async def test_a_model_that_takes_no_prompt_says_so(
    memory: MemoryBroker, shouter: FakeWorker, changed: dict[str, Any], sentence: str
) -> None:
    await announce(memory, **changed)
    async with gateway(memory=memory) as http:
        response = await http.post("/v1/infer", json={"prompt": "a"})
    assert (response.status_code, sentence in response.json()["error"]) == (400, True)


async def test_a_model_that_announces_nothing_gets_a_plain_row(memory: MemoryBroker) -> None:
    async with FakeWorker(memory, "plain", lambda inputs: {"y": inputs["prompt"]}), gateway(memory=memory) as http:
        assert (await http.post("/v1/infer", json={"prompt": "a"})).json()["output"] == "a"
