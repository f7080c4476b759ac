"""What a caller sends ahead, in pieces or wrongly is bounded, and each request gets its own answer."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest
from gateway_sockets import BODY, INFER, Running, announce_without_worker, infer_of, serving, until

from gateway.protocol import MAX_HEAD_BYTES, Protocol
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker

PIPELINED = 2000
ASKED = json.dumps(BODY).encode()
CHUNKED = b"POST %s HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()


@pytest.fixture
async def running(memory: MemoryBroker) -> AsyncIterator[Running]:
    def double(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"] * 2}

    async with FakeWorker(memory, "mlp", double), serving(memory) as running:
        yield running


async def test_a_caller_that_hangs_up_after_a_body_in_large_pieces_is_forgotten(memory: MemoryBroker) -> None:
    await announce_without_worker(memory)
    sent = infer_of(ASKED + b" " * 300_000)
    async with serving(memory, max_body_bytes=1_000_000) as running:
        door = running.parts.admission
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(sent[:100_000])
        await until(lambda: door.body_bytes > 99_000)
        (connection,) = running.server.server_state.connections
        connection.data_received(sent[100_000:])  # in one read, which a socket does not promise
        await until(lambda: bool(door.inflight_by_model))
        writer.transport.abort()
        await until(lambda: not door.inflight)
        assert (door.inflight_by_model, door.body_bytes) == ({}, 0)


async def test_nothing_is_read_while_requests_sent_ahead_wait(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []
    received = Protocol.data_received

    def watched(self: Protocol, data: bytes) -> None:
        waiting.append(len(self._sent_ahead))
        received(self, data)

    monkeypatch.setattr(Protocol, "data_received", watched)
    names = [b"m%d" % at for at in range(PIPELINED)]
    sent = b"".join(b"GET /v2/models/%b HTTP/1.1\r\nhost: %b\r\n\r\n" % (name, b"a" * 300) for name in names)
    answers = await running.raw(sent + b"GET /v2 HTTP/1.1\r\nconnection: close\r\n\r\n", within_s=50)
    assert re.findall(rb"there is no model '(\w+)'", answers) == names
    assert (len(waiting) > 1, max(waiting)) == (True, 0)


async def test_a_head_in_two_reads_does_not_count_the_body_behind_it(running: Running) -> None:
    sent = infer_of(ASKED + b" " * 90_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(sent[:40])
    await asyncio.sleep(0.05)
    writer.write(sent[40:])
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("before", [b"", b"GET /v2 HTTP/1.1\r\nhost: a\r\n\r\n"])
@pytest.mark.parametrize("lines", [1, 100])
async def test_a_head_that_comes_at_once_is_bounded_too(running: Running, before: bytes, lines: int) -> None:
    line = b"x: " + b"y" * (MAX_HEAD_BYTES // lines) + b"\r\n"
    answers = await running.raw(before + b"GET /v2 HTTP/1.1\r\n" + line * lines + b"\r\n")
    assert answers.count(b"HTTP/1.1 200 ") == bool(before)
    assert f"larger than {MAX_HEAD_BYTES} bytes".encode() in answers


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("wrong", [b"garbage\r\n\r\n", CHUNKED + b"no number\r\n"])
async def test_what_cannot_be_read_is_refused_after_the_answers_before_it(
    running: Running, ahead: int, wrong: bytes
) -> None:
    answers = (await running.raw(infer_of(ASKED) * ahead + wrong + infer_of(ASKED))).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * ahead + [b"400"]


async def test_what_cannot_be_read_gets_the_headers_of_every_answer(running: Running) -> None:
    def names(answer: bytes) -> set[bytes]:
        return {line.partition(b":")[0] for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]}

    unreadable = await running.raw(b"garbage\r\n\r\n")
    wrong = await running.raw(b"GET /nowhere HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert names(unreadable) == names(wrong)


async def test_a_body_that_becomes_unreadable_is_refused_at_once(running: Running) -> None:
    assert (await running.raw(CHUNKED + b"2\r\n{}\r\nno number\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_a_caller_that_hangs_up_after_garbage_is_forgotten(memory: MemoryBroker) -> None:
    await announce_without_worker(memory)
    async with serving(memory) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(infer_of(ASKED) + b"garbage\r\n\r\n")
        await until(lambda: bool(running.parts.admission.inflight_by_model))
        writer.transport.abort()
        await until(lambda: not running.parts.admission.inflight)


async def test_an_answer_cancelled_by_the_server_ends_its_connection() -> None:
    memory = MemoryBroker()  # on which each answer has a task that can be cancelled
    await announce_without_worker(memory)
    async with serving(memory) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(infer_of(ASKED))
        await until(lambda: bool(running.parts.admission.inflight_by_model))
        for task in running.server.server_state.tasks:
            task.cancel()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        assert not running.parts.admission.inflight
        writer.close()
