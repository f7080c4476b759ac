"""Reading what brokers answer, in the place of the StreamReader that aiokafka reads its connections through.

That one copies each byte four times before it is decoded, and wakes a task twice for each answer. Here an answer that
is large is received where it stays, and each is handed on in the moment that it is whole.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
import weakref
from typing import Any

import numpy as np
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.fetch import FetchRequest

SMALL_BYTES = 64 * 1024
KEPT_BYTES = 8 * 1024 * 1024
LEAST_SHARE = 8
_FETCH = FetchRequest.API_KEY
_LENGTH = struct.Struct(">i")
_UNUSED = 2  # references to what only we hold, and the one that asking takes


def read_frames(client: Any) -> None:
    """Have an aiokafka client read all its connections so, once they are made."""
    connect = client._get_conn

    async def get_conn(*arguments: Any, **options: Any) -> Any:
        conn = await connect(*arguments, **options)
        if conn is not None and "frames" not in conn.__dict__:
            _take_over(conn)
        return conn

    client._get_conn = get_conn


def _take_over(conn: AIOKafkaConnection) -> None:
    """Not while an answer is under way: it begins in the StreamReader's hands. The next request tries again."""
    reader = conn._reader
    if reader is None or conn._requests or reader._buffer or reader.at_eof():
        return
    transport = conn._writer.transport
    if transport.is_closing():
        return
    conn.frames = frames = Frames(conn)
    transport.pause_reading()  # uvloop chooses how to read a socket when it begins to
    transport.set_protocol(frames)
    transport.resume_reading()


class Answer:
    """A received answer; as much of a binary file as aiokafka's decoding takes.

    What is large is read as a view. It keeps the whole answer in memory, so it is a large part of that, too.

    Attributes:
        content: all of it.
        at: how much `read` has given.
    """

    def __init__(self, content: memoryview) -> None:
        self.content = content
        self.at = 0
        self._least_view = max(SMALL_BYTES // 4, len(content) // LEAST_SHARE)

    def read(self, nbytes: int) -> bytes | memoryview:
        at = self.at
        self.at = at + nbytes
        return self._piece(at, nbytes)

    def part(self, at: int, nbytes: int) -> bytes | memoryview:
        """Raises ValueError: there is not so much."""
        piece = self._piece(at, nbytes)
        if nbytes != len(piece):
            raise ValueError(f"{nbytes} bytes are announced, {len(piece)} are there")
        return piece

    def _piece(self, at: int, nbytes: int) -> bytes | memoryview:
        piece = self.content[at : at + nbytes]
        return piece if nbytes >= self._least_view else bytes(piece)


class Frames(asyncio.BufferedProtocol):
    """Cuts what arrives into answers. All else about the connection stays with aiokafka's own protocol."""

    def __init__(self, conn: AIOKafkaConnection) -> None:
        self._conn = weakref.ref(conn)
        self._reader = conn._reader
        self._rest: Any = conn._protocol
        self._small = memoryview(bytearray(SMALL_BYTES))
        self._kept = np.empty(0, np.uint8)
        self._into = self._small
        self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._into[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        try:
            if self._into is self._small:
                self._cut()
            elif self._filled == len(self._into):
                whole, self._into, self._filled = self._into, self._small, 0
                self._hand_on_large(whole)
        except Exception as err:  # noqa: BLE001 - raised in aiokafka's reading task, which closes the connection
            self._reader.set_exception(err)

    def eof_received(self) -> bool | None:
        stays_open: bool | None = self._rest.eof_received()
        return stays_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest.connection_lost(exc)

    def pause_writing(self) -> None:
        self._rest.pause_writing()

    def resume_writing(self) -> None:
        self._rest.resume_writing()

    def _cut(self) -> None:
        """Hand on the answers that are whole; make room for the rest of a large one."""
        small, at, filled = self._small, 0, self._filled
        while filled - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(small, at)
            if length < 0:
                raise ValueError(f"an answer of {length} bytes is announced")
            begin, end = at + _LENGTH.size, at + _LENGTH.size + length
            if end <= filled:
                self._hand_on(bytes(small[begin:end]))
                at = end
            elif end - at > len(small):
                self._into = self._room(length)
                self._filled = filled - begin
                self._into[: self._filled] = small[begin:filled]
                return
            else:
                break
        if at:
            small[: filled - at] = bytes(small[at:filled])
            self._filled = filled - at

    def _room(self, nbytes: int) -> memoryview:
        """Memory for a large answer: that of the last one if nothing of it is in use any more, or new pages cost."""
        if nbytes > KEPT_BYTES:
            return np.empty(nbytes, np.uint8).data
        if nbytes > len(self._kept) or sys.getrefcount(self._kept) > _UNUSED:
            self._kept = np.empty(max(nbytes, len(self._kept)), np.uint8)
        return self._kept.data[:nbytes]

    def _hand_on(self, answer: bytes) -> None:
        conn = self._conn()
        if conn is not None:
            conn._handle_frame(answer)

    def _hand_on_large(self, content: memoryview) -> None:
        """As aiokafka does it, but what was fetched is not copied: `_kafka_batches` can read it where it lies."""
        conn = self._conn()
        if conn is None:
            return
        correlation_id, request, future = conn._requests[0]
        answer = Answer(content)
        if (
            correlation_id is None
            or request.API_KEY != _FETCH
            or request.parse_response_header(answer).correlation_id != correlation_id
        ):
            conn._handle_frame(bytes(content))
            return
        if not future.done():
            future.set_result(request.RESPONSE_TYPE.decode(answer))
        conn._last_action = time.monotonic()
        conn._requests.popleft()
