"""The HTTP server: uvicorn run by us, so that signals, drain and malformed requests follow headrace's rules."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from producer_sdk.errors import Code
from producer_sdk.topics import new_id

MAX_HEAD_BYTES = 64 * 1024
KEEP_ALIVE_S = 75
BACKLOG = 2048


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounded heads, whose refusals have the same shape as all others."""

    _head_bytes = -1  # of the head being read; -1 between heads

    def data_received(self, data: bytes) -> None:
        # The parser itself would keep a request line and headers of any size.
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response(f"The head of the request is larger than {MAX_HEAD_BYTES} bytes.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self.transport.is_closing():
            return
        id = new_id()
        body = msgspec.json.encode({"id": id, "error": msg, "code": str(Code.INVALID_REQUEST)})
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nheadrace-model-version: \r\nheadrace-request-id: {id}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


class HttpServer(Server):
    """uvicorn's server without its signal handlers: serve.py decides when it ends."""

    def __init__(self, app: Any) -> None:
        config = Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            log_level="error",  # it warns of every malformed request, which strangers send by the thousand
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            backlog=BACKLOG,
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        OSError: the address cannot be listened on; the message says which and what to do.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
        except BaseException:
            listening.close()
            raise
    except OSError as err:
        raise OSError(
            f"the port {host}:{port} cannot be listened on ({err.strerror or err}): "
            "stop what uses it, or give another with --port"
        ) from err
    return listening
