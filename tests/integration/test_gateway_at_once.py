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
