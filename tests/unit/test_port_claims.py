"""Two stacks that start at once never choose the same port."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.dev_ports import DevPorts
from headrace.failure import UsageError
from headrace.free_ports import free_port
from headrace.local_kafka import LocalKafka, PortTakenError
from headrace.port_claims import PortClaim


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stacks that others run on this machine hold claims too."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        yield server


def test_a_claimed_port_is_taken_until_it_is_released(tmp_path: Path) -> None:
    port = free_port()
    claim = PortClaim.take(port)
    assert claim is not None
    assert PortClaim.take(port) is None
    claim.release()
    again = PortClaim.take(port)
    assert again is not None
    again.release()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_claim_ends_with_a_killed_process(tmp_path: Path) -> None:
    port = free_port()
    code = f"from headrace.port_claims import PortClaim; c = PortClaim.take({port}); print(bool(c)); input()"
    command = [sys.executable, "-c", f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}; {code}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert PortClaim.take(port) is None
        other.kill()
        other.wait(5)
    claim = PortClaim.take(port)
    assert claim is not None
    claim.release()


def test_a_port_that_somebody_listens_on_cannot_be_claimed(listener: socket.socket) -> None:
    assert PortClaim.take(listener.getsockname()[1]) is None


def test_without_a_temporary_folder_a_free_port_can_still_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    claim = PortClaim.take_any()
    assert claim.lock is None


@pytest.mark.parametrize("gateway", [None, 0])
def test_two_stacks_share_no_port(gateway: int | None) -> None:
    with DevPorts(gateway) as first, DevPorts(gateway) as second:
        one, other = first.choose(), second.choose()
    ports = [*(one.gateway, one.gateway_admin, one.worker_admin), *(other.gateway, other.gateway_admin)]
    assert len({*ports, other.worker_admin}) == 6


def test_a_named_port_that_another_stack_has_is_wrong_usage() -> None:
    port = free_port()
    with DevPorts(port) as first:
        assert first.choose().gateway == port
        with pytest.raises(UsageError, match=f"Port {port} is in use"):
            DevPorts(port)


def test_a_kafka_does_not_start_on_a_port_that_another_stack_has_chosen() -> None:
    claim = PortClaim.take_any()
    with pytest.raises(PortTakenError, match=f"Port {claim.port} is in use"):
        LocalKafka(port=claim.port).start()
    claim.release()
