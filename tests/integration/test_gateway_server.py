"""The gateway's server over real sockets: malformed heads, vanished callers, connections kept and ended."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from gateway_sockets import BODY, INFER, Running, announce_without_worker, serving, until

from gateway.listen import open_socket
from gateway.protocol import MAX_HEAD_BYTES, ConnectionLimits
from producer_sdk.errors import Cancelled, HeadraceError, PayloadTooLarge, QueueFull
from producer_sdk.model_topics import model_topics
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics


@pytest.fixture
async def running(memory: MemoryBroker) -> AsyncIterator[Running]:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(memory, "mlp", double), serving(memory) as running:
        yield running


async def test_a_connection_is_kept_for_the_next_request(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as http:
        for _ in range(3):
            assert (await http.post(INFER, json=BODY)).json()["outputs"][0]["data"] == [2.0, 4.0]
        assert (await http.head("/v2/health/ready")).content == b""


async def test_a_body_that_is_too_large_leaves_the_connection_usable(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as http:
        refused = await http.post(INFER, content=b" " * 300_000)
        assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert (await http.post(INFER, json=BODY)).status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken header\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST /v1/infer HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"POST /v1/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{]",
    ],
)
async def test_every_malformed_request_gets_the_one_shape(running: Running, head: bytes) -> None:
    top, _, body = (await running.raw(head)).partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 400 ")
    assert b"headrace-model-version:" in top
    assert json.loads(body)["code"] == "INVALID_REQUEST"


async def test_a_head_without_end_is_cut_off(running: Running) -> None:
    async def endless() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        for _ in range(MAX_HEAD_BYTES // 8192 + 2):
            writer.write(b"y" * 8192)
            await writer.drain()
            await asyncio.sleep(0.005)
        answer = await reader.read(12)
        writer.close()
        return answer

    assert await asyncio.wait_for(endless(), 5) == b"HTTP/1.1 400"


async def test_who_waits_for_continue_is_refused_before_sending(running: Running) -> None:
    head = b"POST /v1/infer HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 200000\r\n\r\n"
    assert (await running.raw(head)).startswith(b"HTTP/1.1 413 ")


async def test_a_caller_that_hangs_up_is_forgotten(memory: MemoryBroker) -> None:
    await announce_without_worker(memory)
    async with serving(memory) as running:
        async with httpx.AsyncClient(base_url=running.url) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.post(INFER, json=BODY, timeout=0.3)
        door = running.parts.admission
        for _ in range(200):
            if not door.inflight:
                break
            await asyncio.sleep(0.01)
        assert (door.inflight, door.inflight_by_model, door.body_bytes) == (0, {}, 0)
        assert b'code="CANCELLED",model="mlp",surface="oip"} 1.0' in running.parts.metrics.text()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET / HTTP/1.1\r\nx: ", b"HTTP/1.1 400"),
        (b"\r\n", b""),
        (b"", b""),
        (b"GET / HTTP/1.1\r\n\r\nGET", b"HTTP/1.1 200"),
    ],
)
async def test_a_head_that_does_not_arrive_in_time_ends_the_connection(
    memory: MemoryBroker, sent: bytes, answer: bytes
) -> None:
    async with serving(memory, ConnectionLimits(head_timeout_s=0.2, max_connections=100)) as running:
        began = time.monotonic()
        assert (await running.raw(sent))[:12] == answer
    assert time.monotonic() - began > 0.19


async def test_one_connection_too_many_is_refused(memory: MemoryBroker) -> None:
    async with serving(memory, ConnectionLimits(head_timeout_s=10.0, max_connections=1)) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        refused = await running.raw(b"")
        writer.close()
        await writer.wait_closed()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert json.loads(refused.partition(b"\r\n\r\n")[2])["code"] == "QUEUE_FULL"


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_caller_that_ends_only_its_sending_side_is_answered(running: Running, version: bytes) -> None:
    body = json.dumps(BODY).encode()
    head = b"POST %s HTTP/%s\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), version, len(body))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(head + body)
    writer.write_eof()
    answer = (await asyncio.wait_for(reader.read(), 5)).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["outputs"][0]["data"] == [2.0, 4.0]


async def test_a_body_that_ends_too_early_is_not_waited_for(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"POST /v1/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 20\r\n\r\n{")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 2) == b""
    writer.close()
    await writer.wait_closed()


async def test_a_record_past_kafkas_limit_is_a_413(memory: MemoryBroker) -> None:
    await memory.admin().create_topics(model_topics(Topics(), "mlp", partitions=1))
    memory.fail_publish(Topics().requests("mlp", "interactive"), PayloadTooLarge("too large for Kafka"))
    async with FakeWorker(memory, "mlp", PayloadTooLarge("x")), serving(memory) as running, httpx.AsyncClient() as http:
        response = await http.post(running.url + INFER, json=BODY)
    assert response.status_code == 413
    assert response.json()["error"].startswith("too large for Kafka; name a bucket")


async def test_requests_sent_ahead_are_answered_in_order(running: Running) -> None:
    body = json.dumps(BODY | {"id": "first"}).encode()
    infer = b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), len(body))
    last = b"GET /v2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    answers = await running.raw(infer + body + infer + body.replace(b"first", b"again") + last)
    ids = [line for line in answers.split(b"\r\n") if line.startswith(b"headrace-request-id: ")]
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert ids[:2] == [b"headrace-request-id: first", b"headrace-request-id: again"]
    assert answers.endswith(b"}")
    assert answers.count(b"connection: close\r\n") == 1


async def test_a_caller_that_hangs_up_with_requests_sent_ahead_is_forgotten(memory: MemoryBroker) -> None:
    await announce_without_worker(memory)
    body = json.dumps(BODY).encode()
    infer = b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), len(body)) + body
    async with serving(memory) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(infer + infer)
        door = running.parts.admission
        await until(lambda: bool(door.inflight_by_model))
        writer.transport.abort()
        await until(lambda: not door.inflight)
        assert (door.inflight_by_model, door.body_bytes) == ({}, 0)


async def test_a_caller_that_hangs_up_after_a_large_body_is_forgotten(memory: MemoryBroker) -> None:
    """A large body pauses the reading of its connection."""
    await announce_without_worker(memory)
    body = json.dumps(BODY).encode() + b" " * 90_000
    async with serving(memory) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), len(body)) + body)
        await until(lambda: bool(running.parts.admission.inflight_by_model))
        writer.transport.abort()
        await until(lambda: not running.parts.admission.inflight)


async def test_a_body_in_chunks_is_one_body(running: Running) -> None:
    body = json.dumps(BODY).encode()
    head = b"POST %s HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(head)
    for at in range(0, len(body), 20):
        chunk = body[at : at + 20]
        writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await asyncio.sleep(0.005)
    writer.write(b"0\r\n\r\n")
    assert b'"data":[2.0,4.0]' in await asyncio.wait_for(reader.read(), 5)
    writer.close()


async def test_an_idle_connection_is_closed_in_its_time(memory: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.listen.KEEP_ALIVE_S", 0.3)
    async with serving(memory) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.1)
        asked = time.monotonic()
        assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"}")
        assert time.monotonic() - asked > 0.15
        writer.close()


@pytest.mark.parametrize(("error", "status"), [(Cancelled("elsewhere"), b"499 "), (QueueFull("no room"), b"503 ")])
async def test_every_error_has_its_status_line(memory: MemoryBroker, error: HeadraceError, status: bytes) -> None:
    body = json.dumps(BODY).encode()
    head = b"POST %s HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), len(body))
    async with FakeWorker(memory, "mlp", error), serving(memory) as running:
        assert (await running.raw(head + body)).startswith(b"HTTP/1.1 " + status)


async def test_a_taken_port_is_said_in_a_sentence() -> None:
    with open_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"the port 127.0.0.1:{port} cannot be listened on"):
            open_socket("127.0.0.1", port)
