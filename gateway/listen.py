"""The HTTP server: uvicorn run by us, so that signals and drain follow headrace's rules."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from uvicorn import Config, Server

from .protocol import ConnectionLimits, Protocol

KEEP_ALIVE_S = 75
BACKLOG = 2048


class HttpServer(Server):
    """uvicorn's server without its signal handlers: serve.py decides when it ends."""

    def __init__(self, app: Any, limits: ConnectionLimits) -> None:
        config = Config(
            app,
            http=cast("type[Protocol]", partial(Protocol, limits)),
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
