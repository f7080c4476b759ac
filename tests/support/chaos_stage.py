"""What a row's fault gets its hands on: the broker, workers as processes, callers, the clock of the recovery."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import chaos_entry
import psutil
from chaos_load import Callers
from chaos_row import Row
from chaos_site import Site
from chaos_store import ChaosStore
from chaos_watch import Watch
from worker_rig import WorkerProcess, until

from producer_sdk.broker import Broker
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import RdKafkaBroker
from producer_sdk.topics import Topics

BROKERS: Mapping[str, Callable[[str], Broker]] = {"aiokafka": KafkaBroker, "librdkafka": RdKafkaBroker}
SESSION_S = 6.0
DRAIN_S = 15.0
ENVIRONMENT = {
    "HEADRACE_SESSION_TIMEOUT_S": f"{SESSION_S:g}",
    "HEADRACE_HEARTBEAT_INTERVAL_S": "0.5",
    "HEADRACE_REPLY_PARTITIONS": "2",
    "HEADRACE_DRAIN_TIMEOUT_S": f"{DRAIN_S:g}",
    "HEADRACE_EVENTS": "true",
}


class ChaosWorker(WorkerProcess):
    """`headrace worker` by way of chaos_entry.py, which puts faults inside."""

    def __init__(
        self, bootstrap_servers: str, models: Path, prefix: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        super().__init__(bootstrap_servers, models, prefix, log, **environment)
        self._command[1:3] = [str(Path(chaos_entry.__file__))]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def starts(self) -> int:
        """How often a model has become ready in all lives of this worker."""
        return self.log.count("is ready after")

    def runners(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "runners" in " ".join(child.cmdline())]

    async def terminate(self, timeout_s: float = 40.0) -> int:
        """TERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, timeout_s)


class Stage:
    """One row under way. `broker` is for the callers and the judge; workers may reach theirs through a proxy."""

    def __init__(
        self, row: Row, site: Site, folder: Path, prefix: str, models: Path, seed: int, store: ChaosStore | None = None
    ) -> None:
        self.row = row
        self.store = store
        self.kafka = kafka = site.kafka
        self.proxy = site.proxy
        self.kafka_client = site.kafka_client
        self.folder = folder
        self.prefix = prefix
        self.topics = Topics(prefix)
        self.broker: Broker = BROKERS[site.kafka_client](kafka.bootstrap_servers)
        self.worker_address = site.proxied_address if row.proxied else kafka.bootstrap_servers
        self.workers: dict[str, ChaosWorker] = {}
        self.callers = Callers(self.broker, prefix, row.load, seed, None if store is None else store.settings)
        self.watch: Watch | None = None
        self.healed_at = 0.0
        self.deleted_at = 0.0  # when a reply topic was deleted, with replies that nobody had read yet
        self.notes: list[str] = []  # further breaks of the promise, found by the row itself
        self.models = models

    async def start(self, name: str, **environment: str) -> ChaosWorker:
        """Start a worker, or start it anew, and wait until its model is ready."""
        known = self.workers.get(name)
        if known is None or environment:
            given = ENVIRONMENT | {"HEADRACE_KAFKA_CLIENT": self.kafka_client} | dict(self.row.environment)
            given |= (self.store.environment if self.store is not None else {}) | environment
            ours = {key: text.format(folder=self.folder, worker=name) for key, text in given.items()}
            log = self.folder / f"{name}.log"
            known = ChaosWorker(self.worker_address, self.models, self.prefix, log, ours)
            self.workers[name] = known
        known.start()
        await known.serves(known.starts + 1)
        return known

    def heals(self) -> None:
        """From now on the recovery counts: the fault has ended, or has struck where nothing ends it."""
        self.healed_at = time.monotonic()

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a break of the promise unless something holds."""
        if not holds:
            self.notes.append(otherwise)

    async def rolls(self, name: str) -> None:
        """TERM and start anew; its exit code must be 0."""
        code = await self.workers[name].terminate()
        self.expect(code == 0, f"worker {name} ended with exit code {code} at TERM")
        await self.start(name)

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds; whether it did in time."""
        try:
            await until(holds, timeout_s)
        except AssertionError:
            return False
        return True

    async def stop_workers(self) -> None:
        """TERM for all that run; each must end with 0."""

        async def stop(name: str, worker: ChaosWorker) -> None:
            code = await worker.terminate()
            self.expect(code == 0, f"worker {name} ended with exit code {code} at the end, when all was well")

        await asyncio.gather(*(stop(name, worker) for name, worker in self.workers.items() if worker.running))

    def kill_all(self) -> None:
        """Leave no process behind, and the network well."""
        self.proxy.heal()
        for worker in self.workers.values():
            if worker.running:
                worker.kill()


async def each_second(times: int, act: Callable[[], Awaitable[object]]) -> None:
    """Do something so often, beginning one a second."""
    began = time.monotonic()
    for n in range(times):
        await asyncio.sleep(max(0.0, began + n - time.monotonic()))
        await act()
