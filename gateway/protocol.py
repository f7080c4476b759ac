"""One HTTP/1.1 connection: what uvicorn leaves without a limit, and refusals in the shape of all others."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from producer_sdk.errors import HeadraceError, InvalidRequest, QueueFull
from producer_sdk.topics import new_id

from .answers import error_answer
from .call import Call, head_of, nothing
from .exchange import Exchange
from .heads import Head, KnownHeads, read_head, size_of
from .idle import Idle
from .look import Look

MAX_HEAD_BYTES = 64 * 1024
WAIT_FOR_BODY_S = 0.05  # many callers send a body right behind its head, in a segment of its own


class ConnectionLimits(Struct, frozen=True):
    """Bounds of connections.

    Attributes:
        head_timeout_s: longest time for the head of a request, counted from its first byte, or from the opening of
            the connection.
        max_connections: open at once; one more gets a 503.
    """

    head_timeout_s: float
    max_connections: int


class Protocol(HttpToolsProtocol):
    """Bounds the heads, tells a half-closed connection from a closed one. Belongs to the event loop."""

    _head_bytes = -1  # of the head being read, from the second read on; -1 between heads
    _read_bytes = 0  # of the newest read
    _left_bytes = 0  # of a body that is read without the parser
    _head_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _common: tuple[object, bytes] = (None, b"")
    running: Exchange | None = None
    _refusal: bytes | None = None  # ends the connection after the answers before it
    _is_undecided = False  # whether the running one has not been given to the application yet
    _heads = KnownHeads()  # of all connections
    cycle: Exchange | None  # type: ignore[assignment] # the newest; its body is being read

    def __init__(self, limits: ConnectionLimits, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits
        self._sent_ahead: deque[Exchange] = deque()
        self._look = Look(self, self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle = Idle(transport, self.loop, self.timeout_keep_alive)
        if len(self.connections) > self._limits.max_connections:
            most = self._limits.max_connections
            self._refuse(QueueFull(f"the gateway has {most} connections open"))
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        self._look.end()
        self._idle.cancel()
        self.connections.discard(self)
        for exchange in (self.running, self.cycle):
            if exchange is not None:
                exchange.lose()
        self._decide_now()
        self.flow.resume_writing()
        self.transport.close()
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._left_bytes:
            data = self._read_body(data)
        if data:
            self._read_requests(data)
        self._decide()

    def _read_body(self, data: bytes) -> bytes:
        """More of the body of a request whose head was known; what follows the body."""
        assert self.cycle is not None
        chunk, rest = data[: self._left_bytes], data[self._left_bytes :]
        self._left_bytes -= len(chunk)
        self.cycle.add(chunk)
        if not self._left_bytes:
            self.cycle.end()
        return rest

    def _read_requests(self, data: bytes) -> None:
        before = self.cycle
        between = self.running is None and self._head_bytes < 0 and (before is None or not before.more_body)
        known = self._heads.split(data) if between and self._refusal is None else None
        if known is not None:
            self._take_known(*known)
            return
        self._parse(data)
        cycle = self.cycle
        if between and cycle is not None and cycle is not before and self._refusal is None and not self._sent_ahead:
            self._heads.learn(data, cycle.head, cycle.held_bytes)

    def _take_known(self, head: Head, body: bytes, left_bytes: int) -> None:
        self._end_head_timer()
        self._idle.end()
        self.expect_100_continue = False
        self._left_bytes = left_bytes
        exchange = Exchange(self, head, keep_alive=True, body=None if left_bytes else body)
        self._take(exchange)
        if left_bytes and body:
            exchange.add(body)

    def _parse(self, data: bytes) -> None:
        self._read_bytes = len(data)
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
        super().data_received(data)
        # The parser itself would keep a request line and headers of any size.
        if self._head_bytes > MAX_HEAD_BYTES:  # its end is not among what was read
            self._refuse_head()
        # Empty lines begin no head, but they end uvicorn's own timer of idle connections.
        if self._head_timer is None and (self._head_bytes >= 0 or not self.is_answering()):
            self._start_head_timer()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a caller that ended only its sending side, after a whole request.

        A closed connection looks the same at first, so it is probed.
        """
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._look.probe()
        self._look.start(after_s=0)
        return True

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._idle.end()
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        if self._read_bytes > MAX_HEAD_BYTES or self._head_bytes > MAX_HEAD_BYTES:
            self._check_head()
        self._head_bytes = -1
        self._end_head_timer()
        parser = self.parser
        version = parser.get_http_version()
        head = read_head(parser.get_method().decode("ascii"), self.url, version, self.headers)
        self._take(Exchange(self, head, keep_alive=version != "1.0" and parser.should_keep_alive()))

    def _take(self, exchange: Exchange) -> None:
        self.cycle = exchange
        if self.running is None:
            self.running = exchange
            self._is_undecided = True
        else:  # sent ahead: its turn comes after the answer before it
            self._stop_reading()
            self._sent_ahead.append(exchange)

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            self.cycle.add(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None:
            self.cycle.end()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.running = None
        if self.transport.is_closing():
            return
        if self._sent_ahead:
            self.running = exchange = self._sent_ahead.popleft()
            exchange.task = self.spawn(exchange.run(self.app.respond))
        elif self._refusal is not None:
            self._end_with(self._refusal)
            return
        else:
            self._idle.begin()
        self.read_on()

    def read_on(self) -> None:
        """Read, unless what was read already waits: a caller may send ahead without end."""
        if not self._sent_ahead and self._refusal is None:
            self.flow.resume_reading()

    def _stop_reading(self) -> None:
        self.flow.pause_reading()
        self._look.start()

    def common_headers(self) -> bytes:
        """Lines that every answer has, the date among them."""
        headers = self.server_state.default_headers  # a new list each second
        if self._common[0] is not headers:
            self._common = headers, b"".join([b"%b: %b\r\n" % each for each in headers])
        return self._common[1]

    def _decide(self) -> None:
        """Give the application a request that has come, once what was read with its head is there."""
        exchange = self.running
        if not self._is_undecided or exchange is None:
            return
        if exchange.more_body and exchange.began_s is None and not exchange.waits_for_continue:
            exchange.began_s = time.monotonic()
            self._body_timer = self.loop.call_later(WAIT_FOR_BODY_S, self._decide_now)
        if not exchange.more_body or self._body_timer is None or self.flow.read_paused:
            self._decide_now()

    def _decide_now(self) -> None:
        """A body that is not there by now gets a task that waits for it."""
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        exchange = self.running
        if not self._is_undecided or exchange is None:
            return
        self._is_undecided = False
        if exchange.more_body or not self.app.begin(exchange):
            exchange.task = self.spawn(exchange.run(self.app.respond))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that the server waits for at its end."""
        task: asyncio.Task[None] = self.loop.create_task(work)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        return task

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest(msg))

    def _check_head(self) -> None:
        """Raises, which stops the parser: the head that it has read is too large."""
        if size_of(self.url, self.headers) > MAX_HEAD_BYTES:
            self._refuse_head()
            raise ValueError("the head is too large")

    def _refuse_head(self) -> None:
        self.send_400_response(f"The head of the request is larger than {MAX_HEAD_BYTES} bytes.")

    def _refuse(self, error: HeadraceError) -> None:
        """Answer what could not be read, in its turn, and end the connection; the first such error counts."""
        self._end_head_timer()
        if self.transport.is_closing() or self._refusal is not None:
            return
        call = Call(new_id(), nothing, (), self.loop.time(), close=True)
        answer = error_answer(call, error)
        self._refusal = b"".join((head_of(call, answer), self.common_headers(), b"\r\n", answer.body))
        if self._sent_ahead and self._sent_ahead[-1].more_body:
            self._sent_ahead.pop()  # the fault is in its body: this is its answer
        if self.running is None or self.running.more_body:
            self._end_with(self._refusal)
        else:
            self._stop_reading()

    def _end_with(self, last: bytes) -> None:
        self.transport.write(last)
        self.transport.close()

    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def is_deaf(self) -> bool:
        """Whether nothing is read."""
        return self.flow.read_paused

    def _start_head_timer(self) -> None:
        self._idle.end()
        if self._refusal is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._limits.head_timeout_s, self._head_timed_out)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self.is_answering():  # a head sent ahead: its time counts from the answer before it
            self._start_head_timer()
        elif self._head_bytes >= 0:
            self.send_400_response(f"The head did not arrive within {self._limits.head_timeout_s:g} s.")
        else:
            self.transport.close()
