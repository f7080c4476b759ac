"""Answers of brokers come whole and in order, however they arrive; what was fetched is read where it lies."""

import asyncio
import gc
import struct
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest, FetchResponse_v4
from aiokafka.protocol.types import Int32

from producer_sdk._kafka_frames import KEPT_BYTES, SMALL_BYTES, Answer, Frames

SIZES = (0, 1, 5, 3000, SMALL_BYTES - 5, SMALL_BYTES - 4, SMALL_BYTES - 3, SMALL_BYTES, 7, 400_000, 2)


class Conn:
    """What Frames touches of an aiokafka connection."""

    def __init__(self, *requests: Any) -> None:
        self._reader = Reader()
        self._protocol = SimpleNamespace()
        self._requests = deque(requests)
        self._last_action = 0.0
        self.handled: list[bytes] = []

    def _handle_frame(self, answer: bytes) -> None:
        self.handled.append(answer)
        self._requests.popleft()


class Reader:
    def __init__(self) -> None:
        self.error: BaseException | None = None

    def set_exception(self, error: BaseException) -> None:
        self.error = error


def request(key: int) -> Any:
    return SimpleNamespace(
        API_KEY=key,
        RESPONSE_TYPE=FetchResponse_v4,
        parse_response_header=lambda answer: SimpleNamespace(correlation_id=Int32.decode(answer)),
    )


def feed(frames: Frames, data: bytes, most: int = 1 << 20) -> None:
    at = 0
    while at < len(data):
        room = frames.get_buffer(-1)
        part = data[at : at + min(most, len(room))]
        room[: len(part)] = part
        room.release()
        frames.buffer_updated(len(part))
        at += len(part)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def fetched(*contents: bytes, correlation_id: int = 1) -> bytes:
    """An answer to a fetch, of one partition for each content."""
    partitions = [(number, 0, 9, 9, [], content) for number, content in enumerate(contents)]
    return Int32.encode(correlation_id) + FetchResponse_v4(0, [("t", partitions)]).encode()


@pytest.mark.parametrize("most", [1, 3, 4, 1000, SMALL_BYTES - 1, 1 << 20])
def test_answers_come_whole_and_in_order_in_whatever_pieces_they_arrive(most: int) -> None:
    answers = [bytes([number]) * size for number, size in enumerate(SIZES if most > 4 else (0, 1, 5, 300, 2))]
    conn = Conn(*[(1, request(3), None)] * len(answers))
    feed(Frames(conn), b"".join(map(framed, answers)), most)  # type: ignore[arg-type]
    assert conn.handled == answers


async def test_what_was_fetched_is_decoded_in_its_place_and_small_parts_are_bytes() -> None:
    future = asyncio.get_running_loop().create_future()
    conn = Conn((1, request(FetchRequest.API_KEY), future), (2, request(3), None))
    large, small = b"r" * 200_000, b"s" * 100
    feed(Frames(conn), framed(fetched(large, small)) + framed(b"next"), 5000)  # type: ignore[arg-type]
    ((topic, partitions),) = future.result().topics
    assert topic == "t"
    assert [bytes(each[-1]) for each in partitions] == [large, small]
    assert [type(each[-1]) for each in partitions] == [memoryview, bytes]
    assert conn.handled == [b"next"]
    assert conn._last_action > 0


async def test_memory_is_used_again_only_once_nobody_reads_what_lies_in_it() -> None:
    conn = Conn()
    frames = Frames(conn)  # type: ignore[arg-type]

    def fetch(byte: bytes) -> memoryview:
        future = asyncio.get_running_loop().create_future()
        conn._requests.append((1, request(FetchRequest.API_KEY), future))
        feed(frames, framed(fetched(byte * 100_000)))
        view: memoryview = future.result().topics[0][1][0][-1]
        return view

    first = fetch(b"a")
    second = fetch(b"b")
    assert (bytes(first), bytes(second)) == (b"a" * 100_000, b"b" * 100_000)
    memory = id(second.obj)
    del second
    assert id(fetch(b"c").obj) == memory
    assert bytes(first) == b"a" * 100_000


async def test_very_large_memory_is_not_kept() -> None:
    future = asyncio.get_running_loop().create_future()
    frames = Frames(conn := Conn((1, request(FetchRequest.API_KEY), future)))  # type: ignore[arg-type]
    feed(frames, framed(fetched(b"x" * KEPT_BYTES)))
    assert len(future.result().topics[0][1][0][-1]) == KEPT_BYTES
    assert not conn._requests
    assert len(frames._kept) == 0


def test_a_large_answer_that_was_not_asked_for_is_left_to_aiokafka() -> None:
    conn = Conn((8, request(FetchRequest.API_KEY), None))
    feed(Frames(conn), framed(answer := fetched(b"x" * 100_000)))  # type: ignore[arg-type]
    assert conn.handled == [answer]


@pytest.mark.parametrize("data", [framed(b"nobody waits for it"), struct.pack(">i", -5)])
def test_what_cannot_be_an_answer_ends_the_reading_task_of_aiokafka(data: bytes) -> None:
    conn = Conn() if len(data) > 4 else Conn((1, request(3), None))
    feed(Frames(conn), data)  # type: ignore[arg-type]
    assert conn._reader.error is not None


def test_a_small_part_does_not_keep_a_large_answer_in_memory() -> None:
    content = memoryview(bytearray(1 << 20))
    answer = Answer(content)
    assert [type(answer.read(size)) for size in (100, 1 << 16, 1 << 17)] == [bytes, bytes, memoryview]


def test_nothing_keeps_a_connection_that_its_owner_forgot() -> None:
    conn = Conn((1, request(3), None))
    frames = Frames(conn)  # type: ignore[arg-type]
    handled = conn.handled
    del conn
    gc.collect()
    feed(frames, framed(b"late"))
    assert handled == []
