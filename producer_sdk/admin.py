"""The admin port of a worker or gateway: `/startupz`, `/livez`, `/readyz` and `/metrics`, in a thread of its own.

It answers while the event loop is busy: a probe that waits for a busy loop would restart a healthy process.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

log = logging.getLogger("headrace.admin")

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 64
_POLL_S = 0.1

Check = Callable[[], str | None]


class AdminServer:
    """Serves health and metrics. `start` and `stop` belong to one thread; stop takes up to 0.1 s.

    Args:
        host: address to listen on.
        port: 0 picks a free one, see `port`.
        live: None while the process is alive, else the reason to restart it.
        ready: None while it can take work, else the reason why not.
        metrics: the text of all metrics.
        started: None once the start is over, well or not; else what it waits for.
        standby: a sentence while it is ready, but others do all the work; else None.

    They are called from the server's threads: they may only read plain attributes and never block.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        live: Check,
        ready: Check,
        metrics: Callable[[], bytes],
        started: Check = lambda: None,
        standby: Check = lambda: None,
    ) -> None:
        self._host = host
        self._port = port
        self._pages: dict[str, Callable[[], _Page]] = {
            "/": _index,
            "/startupz": lambda: _verdict("started", started()),
            "/livez": lambda: _verdict("live", live()),
            "/readyz": lambda: _verdict("ready", ready(), standby()),
            "/metrics": lambda: (HTTPStatus.OK, METRICS_CONTENT_TYPE, metrics()),
        }
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port listened on; before `start` the one asked for."""
        return self._port if self._server is None else int(self._server.server_address[1])

    def start(self) -> None:
        """Listen and serve.

        Raises:
            OSError: the address cannot be listened on; the message says which and what to do.
        """
        try:
            self._server = _Server((self._host, self._port), self._pages)
        except OSError as err:
            raise OSError(
                f"the admin port {self._host}:{self._port} cannot be listened on ({err.strerror or err}): "
                "stop what uses it, or give another with --admin-port"
            ) from err
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_S,), name="headrace-admin", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; requests still being answered are cut off. Does nothing when not started."""
        if self._server is None or self._thread is None:
            return
        self._port = self.port
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = self._thread = None


_Page = tuple[HTTPStatus, str, bytes]


def _json(status: HTTPStatus, value: dict[str, object]) -> _Page:
    return status, "application/json", json.dumps(value).encode()


def _index() -> _Page:
    return _json(HTTPStatus.OK, {"name": "headrace", "pages": ["/startupz", "/livez", "/readyz", "/metrics"]})


def _verdict(what: str, reason: str | None, standby: str | None = None) -> _Page:
    if reason is None:
        return _json(HTTPStatus.OK, {what: True} | ({"standby": standby} if standby else {}))
    return _json(HTTPStatus.SERVICE_UNAVAILABLE, {what: False, "reason": reason})


class _Server(ThreadingHTTPServer):
    """Threads and time are bounded: connections past the cap are closed, old ones are cut off."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], pages: dict[str, Callable[[], _Page]]) -> None:
        self.pages = pages
        self._open: dict[Any, float] = {}  # connection -> when to cut it off
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The parent of this method looks the host name up in DNS, which can take seconds.
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open[request] = time.monotonic() + REQUEST_TIMEOUT_S
            return True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        now = time.monotonic()
        with self._lock:
            for late in [connection for connection, until in self._open.items() if now > until]:
                del self._open[late]
                # Wakes the thread that waits for a caller which sends a byte now and then.
                try:
                    late.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it went by itself

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("an admin request ended early", exc_info=True, extra={"action": "admin_request_ended"})


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_S
    server_version = "headrace"
    sys_version = ""
    error_content_type = "application/json"
    error_message_format = '{"error": "%(message)s"}'

    def do_GET(self) -> None:
        status, content_type, body = self._page()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _page(self) -> _Page:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            return _json(HTTPStatus.NOT_FOUND, {"error": "there is no such page: see /"})
        try:
            return page()
        except Exception as err:
            log.exception("an admin page failed", extra={"action": "admin_page_failed"})
            return _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"the page failed: {err}"})

    def log_message(self, format: str, *args: object) -> None:
        """Probes and scrapes are not worth a log line each."""
