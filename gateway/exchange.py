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
from .heads import Head

T = TypeVar("T")

ONE_WRITE_BYTES = 64 * 1024  # a larger body is not copied behind its head
_CLOSE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

log = logging.getLogger("headrace.gateway")


class Connection(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport
    flow: FlowControl
    expect_100_continue: bool

    def common_headers(self) -> bytes: ...
    def read_on(self) -> None: ...
    def on_response_complete(self) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class Asking(Protocol):
    """What works for a caller without a task."""

    def lose(self) -> None: ...


class Exchange:
    """Implements `call.Caller`. Belongs to the event loop; one task runs it, or none.

    Attributes:
        head: what was asked.
        began_s: when its head was there, on the monotonic clock; None where that is now.
        waits_for_continue: the caller sends the body once it is told to.
        held_bytes: of the body, that wait to be taken.
        keep_alive: whether the connection goes on after the answer.
        response_complete: the answer was written.
        more_body: the end of the body has not come yet.
        task: that runs it.
        asking: told when the caller goes away, where no task runs it.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_gone",
        "_is_working",
        "_news",
        "asking",
        "began_s",
        "head",
        "held_bytes",
        "keep_alive",
        "more_body",
        "response_complete",
        "task",
        "waits_for_continue",
    )

    def __init__(self, connection: Connection, head: Head, *, keep_alive: bool, body: bytes | None = None) -> None:
        self._connection = connection
        self.head = head
        self.began_s: float | None = None
        self.keep_alive = keep_alive
        self.response_complete = False
        self.more_body = body is None
        self.waits_for_continue = body is None and connection.expect_100_continue
        self._gone = False
        self._chunks = [] if body is None else [body]
        self.held_bytes = 0
        self._news: asyncio.Event | None = None  # only where something is waited for
        self.task: asyncio.Task[Any] | None = None
        self.asking: Asking | None = None
        self._is_working = False

    async def run(self, respond: Callable[[Exchange], Awaitable[None]]) -> None:
        """Have it answered. A fault there ends the connection: nobody could tell what was answered."""
        try:
            await respond(self)
        except Exception:  # noqa: BLE001 - the top of a task; `_fail` logs it
            self._fail()
        except BaseException:  # cancelled by the server
            self._connection.transport.close()
            raise

    def add(self, chunk: bytes) -> None:
        """More of the body has come."""
        if self.response_complete:
            return
        self._chunks.append(chunk)
        self.held_bytes += len(chunk)
        if self.held_bytes > HIGH_WATER_LIMIT:
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
        if self.asking is not None:
            self.asking.lose()

    def whole_body(self) -> bytes | None:
        if self.more_body or self._gone:
            return None
        chunks, self._chunks = self._chunks, []
        self._connection.read_on()  # or nobody would see the caller go
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def give_back(self, body: bytes) -> None:
        """The body can be taken again."""
        self._chunks = [body]

    async def receive(self) -> Message:
        """More of the body, or that the caller is gone, as ASGI has it."""
        connection = self._connection
        if self.waits_for_continue and not connection.transport.is_closing():
            connection.transport.write(CONTINUE)
        self.waits_for_continue = False
        if self.more_body and not self._chunks and not self._gone:
            self._news = asyncio.Event()
            await self._news.wait()
            self._news = None
        if self._gone:
            return {"type": "http.disconnect"}
        body, self._chunks, self.held_bytes = b"".join(self._chunks), [], 0
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
        flow = self._connection.flow
        if flow.write_paused and not self._gone:
            await flow.drain()
        self._answer(call, answer)

    def answer_at_once(self, call: Call, answer: Answer) -> None:
        """The same for who has no task to wait in. A fault ends the connection, as in `run`."""
        self.asking = None
        if self._connection.flow.write_paused and not self._gone:
            self.go_on(self.answer(call, answer))
            return
        try:
            self._answer(call, answer)
        except Exception:  # noqa: BLE001 - the top of what a reply sets off, beside others; `_fail` logs it
            self._fail()

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Have a task do what is left, which answers."""

        async def respond(_: Exchange) -> None:
            await work

        self.task = self._connection.spawn(self.run(respond))

    def _fail(self) -> None:
        log.exception("A request could not be answered.", extra={"action": "answer_failed"})
        self._connection.transport.close()

    def _answer(self, call: Call, answer: Answer) -> None:
        connection = self._connection
        if self._gone or connection.transport.is_closing():
            return
        is_told = closes(answer)
        self.keep_alive = self.keep_alive and not is_told
        last = b"\r\n" if self.keep_alive or is_told else _CLOSE + b"\r\n"
        self._write(head_of(call, answer), connection.common_headers(), last, self._body_of(answer))
        self.response_complete = True
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()

    def _body_of(self, answer: Answer) -> bytes:
        return b"" if self.head.method == "HEAD" else answer.body

    def _write(self, head: bytes, common: bytes, last: bytes, body: bytes) -> None:
        transport = self._connection.transport
        if len(body) <= ONE_WRITE_BYTES:
            transport.write(b"".join((head, common, last, body)))
        else:
            transport.write(b"".join((head, common, last)))
            transport.write(body)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()


def _went_away() -> Cancelled:
    return Cancelled("the caller went away before the answer")
