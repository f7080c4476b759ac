"""A request body never takes more memory or time than its caps."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.admit import Admission
from gateway.body import read_body, take_whole
from gateway.call import Call, Message
from producer_sdk.errors import Cancelled, InvalidRequest, PayloadTooLarge, QueueFull


class Caller:
    """Sends chunks; counts how many were asked for."""

    def __init__(self, chunks: Sequence[bytes], then: str = "end") -> None:
        self.chunks = list(chunks)
        self.then = then
        self.asked = 0

    async def receive(self) -> Message:
        self.asked += 1
        if self.chunks:
            body = self.chunks.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self.chunks) or self.then != "end"}
        if self.then == "gone":
            return {"type": "http.disconnect"}
        await asyncio.sleep(60)
        raise AssertionError


def call(caller: Caller, **headers: str) -> Call:
    return Call("id", caller.receive, [(name.encode(), value.encode()) for name, value in headers.items()], 0.0)


def admission(max_bytes: int = 1000) -> Admission:
    return Admission(max_inflight=9, max_inflight_per_model=9, max_body_bytes_held=max_bytes)


async def read(caller: Caller, door: Admission, **headers: str) -> bytes:
    return await read_body(call(caller, **headers), door, max_bytes=100, timeout_s=5.0)


async def test_chunks_become_one_body_that_is_counted() -> None:
    door = admission()
    assert await read(Caller([b"ab", b"", b"cd"]), door) == b"abcd"
    assert door.body_bytes == 4


async def test_a_stream_past_the_cap_is_cut_at_once() -> None:
    door, caller = admission(), Caller([b"x" * 60] * 1000)
    with pytest.raises(PayloadTooLarge, match="larger than the 100 bytes"):
        await read(caller, door)
    assert (caller.asked, door.body_bytes) == (2, 0)


@pytest.mark.parametrize("length", ["101", "9" * 4000])
async def test_a_claimed_length_past_the_cap_reads_nothing(length: str) -> None:
    caller = Caller([b"x"])
    with pytest.raises(PayloadTooLarge):
        await read(caller, admission(), **{"content-length": length})
    assert caller.asked == 0


async def test_all_bodies_together_are_bounded() -> None:
    door = admission(max_bytes=50)
    with pytest.raises(QueueFull):
        await read(Caller([b"x" * 40, b"x" * 40]), door)
    assert door.body_bytes == 0


async def test_a_body_that_trickles_ends_the_connection() -> None:
    door, caller = admission(), Caller([b"x"], then="silence")
    slow = call(caller)
    with pytest.raises(InvalidRequest, match=r"did not arrive within 0\.05 s"):
        await read_body(slow, door, max_bytes=100, timeout_s=0.05)
    assert (slow.close, door.body_bytes) == (True, 0)


async def test_a_caller_that_goes_is_cancelled() -> None:
    with pytest.raises(Cancelled):
        await read(Caller([b"x"], then="gone"), admission())


async def test_content_codings_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Content-Encoding"):
        take_whole(call(Caller([b"x"]), **{"content-encoding": "gzip"}), admission(), 100)
