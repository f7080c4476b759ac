"""The admin port answers probes and scrapes, whatever the rest of the process does."""

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from producer_sdk import admin
from producer_sdk.admin import AdminServer


class Process:
    """What the probes look at."""

    live: str | None = None
    ready: str | None = "no partitions assigned yet"
    metrics = b"headrace_up 1\n"


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def server(process: Process) -> Iterator[AdminServer]:
    server = AdminServer(
        "127.0.0.1", 0, live=lambda: process.live, ready=lambda: process.ready, metrics=lambda: process.metrics
    )
    server.start()
    yield server
    server.stop()


def get(server: AdminServer, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{server.port}{path}")


def test_ready_and_live_are_told_apart(server: AdminServer, process: Process) -> None:
    assert get(server, "/livez").status_code == 200
    refused = get(server, "/readyz")
    assert (refused.status_code, refused.json()) == (503, {"ready": False, "reason": "no partitions assigned yet"})
    process.ready = None
    assert get(server, "/readyz").json() == {"ready": True}


def test_metrics_are_text_of_prometheus(server: AdminServer) -> None:
    response = get(server, "/metrics")
    assert response.text == "headrace_up 1\n"
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_an_unknown_page_points_to_the_index(server: AdminServer) -> None:
    assert get(server, "/nothing").status_code == 404
    assert "/metrics" in get(server, "/").json()["pages"]


def test_a_failing_check_is_not_healthy(server: AdminServer, process: Process) -> None:
    del Process.live
    try:
        assert get(server, "/livez").status_code == 500
    finally:
        Process.live = None


def test_a_taken_port_is_said_in_a_sentence(server: AdminServer) -> None:
    second = AdminServer("127.0.0.1", server.port, live=lambda: None, ready=lambda: None, metrics=bytes)
    with pytest.raises(OSError, match=f"the admin port 127.0.0.1:{server.port} cannot be listened on"):
        second.start()
    second.stop()


def test_a_stopped_server_leaves_its_port(server: AdminServer) -> None:
    port = server.port
    server.stop()
    with socket.create_server(("127.0.0.1", port), reuse_port=False):
        assert server.port == port


def test_a_caller_that_trickles_is_cut_off(server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=8) as caller:
        caller.sendall(b"GET /livez HTTP/1.1\r\nx: ")
        started = time.monotonic()
        assert caller.recv(1) == b""
    assert time.monotonic() - started < 5


def test_connections_past_the_cap_are_closed(server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "MAX_CONNECTIONS", 1)
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, timeout=8) as first, socket.create_connection(address, timeout=8) as second:
        first.sendall(b"GET")
        assert second.recv(1) == b""
