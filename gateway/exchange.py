"""One HTTP request and its answer, on a connection of our own server.

It stands in the place of uvicorn's cycle of ASGI messages: those, an event and a scope for each request, and a task
that waits for the caller to go away took a fifth of the gateway's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from producer_sdk.errors import Cancelled

from .call import Answer, Call, Message, closes, head_of

T = TypeVar("T")

ONE_WRITE_BYTES = 64 * 1024  # a larger body is not copied behind its head
_CLOSE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

log = logging.getLogger("headrace.gateway")


class Connection(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport
    flow: FlowControl
    method: str
    raw_path: bytes
    http_version: str
    headers: list[tuple[bytes, bytes]]
    expect_100_continue: bool

    def common_headers(self) -> bytes: ...
    def read_on(self) -> None: ...
    def on_response_complete(self) -> None: ...


class Exchange:
    """Implements `call.Caller`. Belongs to the event loop; one task runs it.

    Attributes:
        keep_alive: whether the connection goes on after the answer.
        response_complete: the answer was written.
        more_body: the end of the body has not come yet.
        task: that runs it.
    """

    def __init__(self, connection: Connection, *, keep_alive: bool) -> None:
        self._connection = connection
        self.method = connection.method
        self.raw_path = connection.raw_path
        self.http_version = connection.http_version
        self.headers = connection.headers
        self.keep_alive = keep_alive
        self.response_complete = False
        self.more_body = True
        self._waits_for_continue = connection.expect_100_continue
        self._gone = False
        self._chunks: list[bytes] = []
        self._held_bytes = 0
        self._news: asyncio.Event | None = None  # only where something is waited for
        self.task: asyncio.Task[Any] | None = None
        self._is_working = False

    async def run(self, respond: Callable[[Exchange], Awaitable[None]]) -> None:
        """Have it answered. A fault there ends the connection: nobody could tell what was answered."""
        try:
            await respond(self)
        except Exception:  # the top of a task
            log.exception("A request could not be answered.", extra={"action": "answer_failed"})
            self._connection.transport.close()
        except BaseException:  # cancelled by the server
            self._connection.transport.close()
            raise

    def add(self, chunk: bytes) -> None:
        """More of the body has come."""
        if self.response_complete:
            return
        self._chunks.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes > HIGH_WATER_LIMIT:
            self._connection.flow.pause_reading()
        self._tell()

    def end(self) -> None:
        """The body is complete."""
        self.more_body = False
        self._tell()

    def lose(self) -> None:
        """The connection is lost: what works for it is cancelled, once."""
        if self._gone:
            return
        self._gone = True
        self._tell()
        if self._is_working and self.task is not None:
            self.task.cancel()

    def whole_body(self) -> bytes | None:
        if self.more_body or self._gone:
            return None
        chunks, self._chunks = self._chunks, []
        self._connection.read_on()  # or nobody would see the caller go
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def receive(self) -> Message:
        """More of the body, or that the caller is gone, as ASGI has it."""
        connection = self._connection
        if self._waits_for_continue and not connection.transport.is_closing():
            connection.transport.write(CONTINUE)
        self._waits_for_continue = False
        if self.more_body and not self._chunks and not self._gone:
            self._news = asyncio.Event()
            await self._news.wait()
            self._news = None
        if self._gone:
            return {"type": "http.disconnect"}
        body, self._chunks, self._held_bytes = b"".join(self._chunks), [], 0
        connection.read_on()  # after the last of the body too: or nobody would see the caller go
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        if self._gone:
            work.close()
            raise _went_away()
        self._is_working = True
        try:
            return await work
        except asyncio.CancelledError:
            # Only one of two cancellations is ours: one from the server's end must go on.
            if not self._gone or self.task is None or self.task.uncancel() > 0:
                raise
            raise _went_away() from None
        finally:
            self._is_working = False

    async def answer(self, call: Call, answer: Answer) -> None:
        """Write the answer, head and body at once."""
        connection, flow = self._connection, self._connection.flow
        if flow.write_paused and not self._gone:
            await flow.drain()
        if self._gone or connection.transport.is_closing():
            return
        self.keep_alive = self.keep_alive and not closes(answer)
        parts = [head_of(call, answer), connection.common_headers()]
        if not self.keep_alive and not closes(answer):
            parts.append(_CLOSE)
        parts.append(b"\r\n")
        self._write(parts, b"" if self.method == "HEAD" else answer.body)
        self.response_complete = True
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()

    def _write(self, head: list[bytes], body: bytes) -> None:
        transport = self._connection.transport
        if len(body) <= ONE_WRITE_BYTES:
            transport.write(b"".join((*head, body)))
        else:
            transport.write(b"".join(head))
            transport.write(body)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()


def _went_away() -> Cancelled:
    return Cancelled("the caller went away before the answer")
