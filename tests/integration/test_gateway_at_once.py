"""A request that needs no task of its own keeps every promise that one with a task keeps."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from gateway_sockets import BODY, Running, announce_without_worker, infer_of, serving, until
from prompt_broker import PromptBroker, PromptProducer

from producer_sdk.broker import BrokerError
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

ASKED = infer_of(json.dumps(BODY).encode())


@pytest.fixture
def memory() -> MemoryBroker:
    return PromptBroker()


@pytest.fixture
async def running(memory: MemoryBroker) -> AsyncIterator[Running]:
    await announce_without_worker(memory)
    async with serving(memory) as running:
        await warm(running, memory)
        yield running


async def warm(running: Running, memory: MemoryBroker) -> None:
    """The first request of a client looks for the topic, in a task."""
    short = {**BODY, "parameters": {"deadline_s": 0.01}}
    assert b" 504 " in (await ask(running, infer_of(json.dumps(short).encode())))[0]


async def ask(running: Running, *requests: bytes) -> list[bytes]:
    """The status lines of the answers, one after another on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    lines = []
    for request in requests:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        lines.append(head.partition(b"\r\n")[0])
    writer.close()
    await writer.wait_closed()
    return lines


async def test_there_is_no_task_and_a_hang_up_cancels_the_request(running: Running, memory: MemoryBroker) -> None:
    door, topics = running.parts.admission, Topics()
    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(ASKED)
    await until(lambda: bool(door.inflight_by_model))
    assert not running.server.server_state.tasks
    writer.transport.abort()
    await until(lambda: not door.inflight)
    assert (door.inflight_by_model, door.body_bytes) == ({}, 0)
    assert b'code="CANCELLED",model="mlp",surface="oip"} 1.0' in running.parts.metrics.text()
    cancels = memory._logs._topics[topics.cancels][0]
    await until(lambda: cancels.end > 0)


async def test_an_id_that_waits_already_is_refused(running: Running) -> None:
    asked = infer_of(json.dumps({**BODY, "id": "one"}).encode())
    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(asked)
    await until(lambda: bool(running.parts.admission.inflight_by_model))
    assert await ask(running, asked) == [b"HTTP/1.1 400 Bad Request"]
    assert running.parts.admission.inflight == 1
    writer.close()
    await writer.wait_closed()


async def test_the_deadline_ends_it(running: Running) -> None:
    short = infer_of(json.dumps({**BODY, "parameters": {"deadline_s": 0.05}}).encode())
    assert await ask(running, short, short) == [b"HTTP/1.1 504 Gateway Timeout"] * 2
    assert (running.parts.admission.inflight, running.parts.admission.body_bytes) == (0, 0)


async def test_a_refused_publish_is_told(running: Running, memory: MemoryBroker) -> None:
    memory.fail_publish(Topics().requests("mlp", "interactive"), BrokerError("no room"))
    assert await ask(running, ASKED, ASKED) == [b"HTTP/1.1 500 Internal Server Error"] * 2
    assert running.parts.admission.inflight == 0


async def test_one_whose_publish_must_wait_gets_its_answer(
    memory: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(memory, "mlp", double), serving(memory) as running:
        await ask(running, ASKED)
        monkeypatch.setattr(PromptProducer, "is_full", True)
        assert await ask(running, ASKED, ASKED) == [b"HTTP/1.1 200 OK"] * 2
        assert b'code="OK",model="mlp",surface="oip"} 3.0' in running.parts.metrics.text()


async def test_many_at_once_and_again_get_each_their_own(memory: MemoryBroker) -> None:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(memory, "mlp", double), serving(memory) as running:
        lines = await asyncio.gather(*(ask(running, *[ASKED] * 5) for _ in range(40)))
        assert {line for each in lines for line in each} == {b"HTTP/1.1 200 OK"}
        assert b'code="OK",model="mlp",surface="oip"} 200.0' in running.parts.metrics.text()
        assert running.parts.admission.inflight_by_model == {}


async def test_a_body_behind_its_head_needs_no_task_either(running: Running) -> None:
    head, _, body = ASKED.partition(b"\r\n\r\n")
    door = running.parts.admission
    for _ in range(3):  # the head is known from the second on
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(head + b"\r\n\r\n")
        await until(lambda: any(each.running is not None for each in running.server.server_state.connections))
        for at in range(0, len(body), 30):
            assert not door.inflight
            writer.write(body[at : at + 30])
            await asyncio.sleep(0)
        await until(lambda: bool(door.inflight_by_model))
        assert not running.server.server_state.tasks
        writer.transport.abort()
        await until(lambda: not door.inflight)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_body_that_is_late_is_waited_for_by_a_task(running: Running, is_known: bool) -> None:
    body = json.dumps({**BODY, "parameters": {"deadline_s": 0.3}}).encode()
    asked = infer_of(body)
    if is_known:
        assert await ask(running, asked) == [b"HTTP/1.1 504 Gateway Timeout"]
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(asked[:-5])
    await until(lambda: bool(running.server.server_state.tasks))
    writer.write(asked[-5:])
    assert await asyncio.wait_for(reader.readline(), 10) == b"HTTP/1.1 504 Gateway Timeout\r\n"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_hang_up_before_the_body_is_counted(running: Running, is_known: bool) -> None:
    if is_known:
        _, other = await asyncio.open_connection("127.0.0.1", running.port)
        other.write(ASKED)
        await until(lambda: bool(running.parts.admission.inflight))
    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(ASKED[:-5])
    await until(lambda: len(running.server.server_state.connections) == 1 + is_known)
    await asyncio.sleep(0.01)
    writer.transport.abort()
    await until(lambda: b'code="CANCELLED",model="mlp",surface="oip"} 1.0' in running.parts.metrics.text())
    if is_known:
        other.transport.abort()
        await until(lambda: not running.parts.admission.inflight)


async def test_the_time_until_the_body_came_counts_too(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.protocol.WAIT_FOR_BODY_S", 10.0)
    asked = infer_of(json.dumps({**BODY, "parameters": {"deadline_s": 0.05}}).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(asked[:-5])
    await asyncio.sleep(0.1)
    writer.write(asked[-5:])
    assert b" passed while the request arrived" in await asyncio.wait_for(reader.readuntil(b"arrived"), 10)
    writer.close()
    await writer.wait_closed()


async def test_a_drain_answers_what_is_asked_and_takes_no_more(running: Running) -> None:
    asked = infer_of(json.dumps({**BODY, "parameters": {"deadline_s": 0.5}}).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(asked)
    await until(lambda: bool(running.parts.admission.inflight_by_model))
    running.server.should_exit = True
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"\r\nconnection: close\r\n" in answer
    writer.close()
    await writer.wait_closed()
