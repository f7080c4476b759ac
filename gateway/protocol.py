"""One HTTP/1.1 connection: what uvicorn leaves without a limit, and refusals in the shape of all others."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from functools import lru_cache
from typing import Any

import httptools
import msgspec
from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from producer_sdk.errors import Code
from producer_sdk.topics import new_id

from .exchange import Exchange
from .status import RETRY_AFTER_S

MAX_HEAD_BYTES = 64 * 1024
LOOK_AT_SOCKET_S = 0.25
MOST_REMEMBERED_BYTES = 256


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

    _head_bytes = -1  # of the head being read; -1 between heads
    _head_timer: asyncio.TimerHandle | None = None
    _look_timer: asyncio.TimerHandle | None = None
    _idle_timer: asyncio.TimerHandle | None = None
    _idle_since: float | None = None
    _common: tuple[object, bytes] = (None, b"")
    _running: Exchange | None = None
    cycle: Exchange | None  # type: ignore[assignment] # the newest; its body is being read

    def __init__(self, limits: ConnectionLimits, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits
        self._sent_ahead: deque[Exchange] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            most = self._limits.max_connections
            self._refuse("503 Service Unavailable", Code.QUEUE_FULL, f"the gateway has {most} connections open")
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        for timer in (self._look_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self.connections.discard(self)
        for exchange in (self._running, self.cycle):
            if exchange is not None:
                exchange.lose()
        self.flow.resume_writing()
        self.transport.close()
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        # The parser itself would keep a request line and headers of any size.
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response(f"The head of the request is larger than {MAX_HEAD_BYTES} bytes.")
                return
        super().data_received(data)
        # Empty lines begin no head, but they end uvicorn's own timer of idle connections.
        if self._head_timer is None and (self._head_bytes >= 0 or not self._is_answering()):
            self._start_head_timer()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a caller that ended only its sending side, after a whole request.

        A closed connection looks the same at first: the peer refuses what is sent to it only then. So HTTP/1.1 callers
        are sent `100 Continue`, which means nothing after a whole request, and the socket is looked at until the
        answer is there.
        """
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        if self.cycle.http_version == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._look_timer = self.loop.call_later(0, self._look_at_socket)
        return True

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._idle_since = None
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        self._end_head_timer()
        parser = self.parser
        self.http_version = parser.get_http_version()
        self.method = parser.get_method().decode("ascii")
        self.raw_path = _path_of(self.url) if len(self.url) <= MOST_REMEMBERED_BYTES else _read_path(self.url)
        self.cycle = Exchange(self, keep_alive=self.http_version != "1.0" and parser.should_keep_alive())
        if self._running is None:
            self._run(self.cycle)
        else:  # sent ahead: its turn comes after the answer before it
            self.flow.pause_reading()
            self._sent_ahead.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            self.cycle.add(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None:
            self.cycle.end()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._sent_ahead:
            self._run(self._sent_ahead.popleft())
        else:
            self._begin_idle()

    def common_headers(self) -> bytes:
        """Lines that every answer has, the date among them."""
        headers = self.server_state.default_headers  # a new list each second
        if self._common[0] is not headers:
            self._common = headers, b"".join([b"%b: %b\r\n" % each for each in headers])
        return self._common[1]

    def _run(self, exchange: Exchange) -> None:
        self._running = exchange
        task = exchange.task = self.loop.create_task(exchange.run(self.app.respond))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _begin_idle(self) -> None:
        self._idle_since = self.loop.time()
        if self._idle_timer is None:  # one runs on over many requests: each timer costs
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._end_idle)

    def _end_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None or self._head_timer is not None or self.transport.is_closing():
            return
        left_s = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left_s <= 0:
            self.transport.close()
        else:
            self._idle_timer = self.loop.call_later(left_s, self._end_idle)

    def send_400_response(self, msg: str) -> None:
        self._refuse("400 Bad Request", Code.INVALID_REQUEST, msg)

    def _refuse(self, status: str, code: Code, sentence: str) -> None:
        self._end_head_timer()
        if self.transport.is_closing():
            return
        id = new_id()
        body = msgspec.json.encode({"id": id, "error": sentence, "code": str(code)})
        retry = f"retry-after: {RETRY_AFTER_S[code]}\r\n" if code in RETRY_AFTER_S else ""
        head = (
            f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{retry}"
            f"headrace-model-version: \r\nheadrace-request-id: {id}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_head_timer(self) -> None:
        if not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._limits.head_timeout_s, self._head_timed_out)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self._is_answering():  # a head sent ahead: its time counts from the answer before it
            self._start_head_timer()
        elif self._head_bytes >= 0:
            self.send_400_response(f"The head did not arrive within {self._limits.head_timeout_s:g} s.")
        else:
            self.transport.close()

    def _look_at_socket(self) -> None:
        if self.transport.is_closing() or not self._is_answering():
            return
        # Nothing reads any more, so that only a look at the socket tells that the peer refused what it was sent.
        if self._is_broken():
            self.transport.abort()
        else:
            self._look_timer = self.loop.call_later(LOOK_AT_SOCKET_S, self._look_at_socket)

    def _is_broken(self) -> bool:
        connection = self.transport.get_extra_info("socket")
        return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def _read_path(url: bytes) -> bytes:
    """The path of what a request line asks for. Raises, as the parser's callbacks may: it has none, or is no ASCII."""
    path: bytes = httptools.parse_url(url).path
    path.decode("ascii")
    return path


_path_of = lru_cache(maxsize=1024)(_read_path)
