"""A look at why Kafka is not reached leaves no connection open, wherever it is cut off, and whatever the port does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from secured_kafka import Authority
from worker_rig import until

from producer_sdk._kafka_diagnosis import diagnosed
from producer_sdk.kafka import KafkaOptions
from producer_sdk.security import Security


@dataclass
class SilentPort:
    """Takes connections and answers nothing, not even a goodbye; with certificate, after the TLS handshake."""

    listening: socket.socket
    context: ssl.SSLContext | None
    held: list[socket.socket] = field(default_factory=list)
    shaken: int = 0

    def run(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self.listening.accept()
                self.held.append(taken)
                if self.context is not None:
                    threading.Thread(target=self.shake, args=(taken,), daemon=True).start()

    def shake(self, taken: socket.socket) -> None:
        assert self.context is not None
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_side=True)
        with suppress(OSError):
            while True:
                try:
                    tls.do_handshake()
                except ssl.SSLWantReadError:
                    taken.sendall(outgoing.read())
                    data = taken.recv(65536)
                    if not data:
                        return
                    incoming.write(data)
                else:
                    taken.sendall(outgoing.read())
                    self.shaken += 1
                    return

    def ended(self, taken: socket.socket) -> bool:
        """Whether the other end has closed it; what it sent is of no interest."""
        taken.setblocking(False)
        try:
            while taken.recv(65536):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True


@contextmanager
def silent_port(files: tuple[Path, Path] | None) -> Iterator[SilentPort]:
    context = None
    if files is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = SilentPort(listening, context)
        threading.Thread(target=port.run, daemon=True).start()
        try:
            yield port
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for each in port.held:
                each.close()


@pytest.mark.parametrize("speaks_tls", [False, True], ids=["plain", "tls"])
async def test_a_diagnosis_that_is_cancelled_leaves_no_socket_open(tmp_path: Path, speaks_tls: bool) -> None:
    authority = Authority(tmp_path, "ca")
    files = authority.issue("broker", ["127.0.0.1"]) if speaks_tls else None
    security = Security(protocol="SSL", cafile=str(authority.file)) if speaks_tls else Security()
    with silent_port(files) as port:
        name = f"127.0.0.1:{port.listening.getsockname()[1]}"
        looking = asyncio.create_task(diagnosed(name, KafkaOptions(security=security, request_timeout_s=60.0)))
        await until(lambda: len(port.held) == 2 and port.shaken == int(speaks_tls))  # the first asked who listens
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        await until(lambda: all(map(port.ended, port.held)))


async def test_a_diagnosis_that_asks_for_another_protocol_leaves_no_socket_open_either(tmp_path: Path) -> None:
    files = Authority(tmp_path, "ca").issue("broker", ["127.0.0.1"])
    with silent_port(files) as port:
        name = f"127.0.0.1:{port.listening.getsockname()[1]}"
        assert await diagnosed(name, KafkaOptions(security=Security(protocol="SSL"), request_timeout_s=60.0))
        await until(lambda: all(map(port.ended, port.held)))
