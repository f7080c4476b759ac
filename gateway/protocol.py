"""One HTTP/1.1 connection: what uvicorn leaves without a limit, and refusals in the shape of all others."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from producer_sdk.errors import Code
from producer_sdk.topics import new_id

from .status import RETRY_AFTER_S

MAX_HEAD_BYTES = 64 * 1024
LOOK_AT_SOCKET_S = 0.25


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

    def __init__(self, limits: ConnectionLimits, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            most = self._limits.max_connections
            self._refuse("503 Service Unavailable", Code.QUEUE_FULL, f"the gateway has {most} connections open")
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        if self._look_timer is not None:
            self._look_timer.cancel()
        super().connection_lost(exc)

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
        if not self._is_answering() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        if self.cycle.scope["http_version"] == "1.1" and not self.pipeline and not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._look_timer = self.loop.call_later(0, self._look_at_socket)
        return True

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        self._end_head_timer()
        super().on_headers_complete()

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
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

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
