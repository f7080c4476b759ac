"""A worker inside the test's own event loop, and one as a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from headrace.free_ports import free_port
from producer_sdk.broker import Broker, TopicPartition
from producer_sdk.topics import Topics
from workers.drain import Exit
from workers.serve import Worker
from workers.settings import WorkerSettings


def worker_settings(models: Path, prefix: str, **settings: object) -> WorkerSettings:
    """Settings of a worker for a test: few partitions, any admin port, quick commits."""
    ours: dict[str, object] = {
        "models": models,
        "prefix": prefix,
        "admin_port": 0,
        "admin_host": "127.0.0.1",
        "partitions": 2,
        "reply_partitions": 4,
        "commit_interval_s": 0.05,
        "announce_interval_s": 0.5,
        "endpoint_lag_s": 0.0,
        "start_timeout_s": 0.0,
        "drain_timeout_s": 10.0,
    }
    return WorkerSettings(**(ours | settings))  # type: ignore[arg-type]


@asynccontextmanager
async def running_worker(
    broker: Broker, models: Path, prefix: str, *, expect: Exit = Exit.CLEAN, **settings: object
) -> AsyncIterator[Worker]:
    """A ready worker in this event loop; drained at the end, when its exit code must be the expected one."""
    worker = Worker(worker_settings(models, prefix, **settings), broker)
    task = asyncio.create_task(worker.serve(), name="worker")
    try:
        await until(lambda: task.done() or worker.health.ready() is None, 45.0)
        if task.done():
            task.result()
        yield worker
    finally:
        worker.stop.signalled()
        code = await asyncio.wait_for(task, 60.0)
    assert code is expect


async def committed(broker: Broker, prefix: str, model: str = "m") -> dict[TopicPartition, int]:
    """The offsets that the model's group has committed."""
    admin = broker.admin()
    await admin.start()
    found = await admin.committed(Topics(prefix).group(model))
    await admin.stop()
    return {partition: each.offset for partition, each in found.items()}


async def until(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait until something holds; fails the test when it does not in time."""
    ends = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > ends:
            raise AssertionError(f"it does not hold after {timeout_s} s")
        await asyncio.sleep(0.01)


class HeadraceProcess:
    """A verb of the command `headrace` as a real process, its output in a log file."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-m", "headrace", *arguments]
        self._environment = os.environ | environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def ready(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; fails at once with the log when the process ends."""
        try:
            await until(lambda: self.process.poll() is not None or holds(), 45.0)
            assert self.process.poll() is None, "it has ended"
        except AssertionError as err:
            raise AssertionError(f"{self._command[3]} is not ready; its log:\n{self.log}") from err

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait(10)


class WorkerProcess(HeadraceProcess):
    """`headrace worker`."""

    def __init__(self, bootstrap_servers: str, models: Path, prefix: str, log: Path, **environment: str) -> None:
        arguments = ["worker", "--bootstrap-servers", bootstrap_servers, "--models", str(models), "--admin-port", "0"]
        ours = {
            "HEADRACE_PREFIX": prefix,
            "HEADRACE_PARTITIONS": "2",
            "HEADRACE_ADMIN_HOST": "127.0.0.1",
            "HEADRACE_COMMIT_INTERVAL_S": "0.05",
            "HEADRACE_ENDPOINT_LAG_S": "0",
        }
        super().__init__(arguments, log, ours | environment)

    async def serves(self, models: int = 1) -> None:
        """Wait until it has said so often that a model is ready."""
        await self.ready(lambda: self.log.count("is ready after") >= models)


class GatewayProcess(HeadraceProcess):
    """`headrace gateway` on a free port."""

    def __init__(self, bootstrap_servers: str, prefix: str, log: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        arguments = ["gateway", "--bootstrap-servers", bootstrap_servers, "--host", "127.0.0.1", "--admin-port", "0"]
        ours = {"HEADRACE_PREFIX": prefix, "HEADRACE_PORT": self.url.rpartition(":")[2], "HEADRACE_ENDPOINT_LAG_S": "0"}
        super().__init__(arguments, log, ours)

    async def serves(self, model: str) -> None:
        """Wait until it says that the model is ready."""
        await self.ready(lambda: self._says_ready(model))

    def _says_ready(self, model: str) -> bool:
        try:
            return httpx.get(f"{self.url}/v2/models/{model}/ready").status_code == 200
        except httpx.TransportError:
            return False
