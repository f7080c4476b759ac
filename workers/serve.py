"""The worker process from start to end: broker, topics, models, admin port, signals, drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace

from producer_sdk.admin import AdminServer
from producer_sdk.announcements import Announcement
from producer_sdk.broker import Admin, Broker
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Topics

from .announce import Announcer, announcement
from .drain import Exit, StopRequest, stop_signals
from .health import Health, ModelHealth
from .log import set_up_logging
from .loop import ModelLoop
from .metrics import WorkerMetrics
from .models import find_models
from .runners.engine import LoadFailed, ModelSpec
from .runners.runner import RunnerDied
from .settings import WorkerSettings

LEAVE_TIMEOUT_S = 5.0
Future = asyncio.Future[Any]
_log = logging.getLogger("headrace.worker")


class Worker:
    """All models of one worker process. One event loop touches it."""

    def __init__(self, settings: WorkerSettings, broker: Broker) -> None:
        self._settings = settings
        self._broker = broker
        self._topics = Topics(settings.prefix)
        self.loops: list[ModelLoop] = []
        self._metrics = WorkerMetrics()
        self.health = Health(self._model_health, settings.max_poll_interval_s)
        self.stop = StopRequest()

    async def serve(self) -> Exit:
        """Serve until a signal.

        1. signals and admin port, before anything slow
        2. the models, topics, and the announcements
        3. load every model and join its group
        4. wait for a signal or a death
        5. drain, commit, leave
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(stop_signals(self.stop))  # 1
            self._start_admin_port(stack)
            specs = self._find_models()  # 2
            producer = self._broker.producer()
            admin = self._broker.admin()
            await admin.start()
            stack.push_async_callback(admin.stop)
            await producer.start()
            stack.push_async_callback(producer.stop, LEAVE_TIMEOUT_S)
            await self._create_topics(admin, specs)
            self.loops = [ModelLoop(spec, self._settings, self._broker, producer, admin) for spec in specs]
            self._metrics.models = [loop.metrics for loop in self.loops]
            announcer = Announcer(
                producer, self._topics.control, self._announcements, self._settings.announce_interval_s
            )
            sides = [self._side(announcer.run(), "announce", stack), self._side(self.health.tick(), "tick", stack)]
            try:
                return await self._serve_until_told(announcer, sides)
            finally:
                await asyncio.wait_for(announcer.leave(), LEAVE_TIMEOUT_S)

    async def _serve_until_told(self, announcer: Announcer, sides: Sequence[asyncio.Task[None]]) -> Exit:
        loading: Future = asyncio.gather(*(self._load(loop, announcer) for loop in self.loops))
        drain: Future = asyncio.create_task(self.stop.drain.wait(), name="wait for a signal")
        try:
            await asyncio.wait([loading, drain], return_when=asyncio.FIRST_COMPLETED)  # 3
            if loading.done():
                loading.result()
                self.health.started = True
            announcer.changed()
            serving = [loop for loop in self.loops if loop.serving]
            deaths: list[Future] = [
                asyncio.create_task(loop.failed(), name=f"watch {loop.spec.name}") for loop in serving
            ]
            done, _ = await asyncio.wait([drain, *deaths, *sides], return_when=asyncio.FIRST_COMPLETED)  # 4
            for death in deaths:
                death.cancel()
            if drain not in done:
                return self._report_death(done)
            return await self._drain()  # 5
        finally:
            loading.cancel()
            drain.cancel()
            self.health.stopping = True
            await asyncio.gather(*(loop.stop() for loop in self.loops))

    def _report_death(self, done: set[Future]) -> Exit:
        for task in done:
            error = task.exception() or task.result()
            _log.error("A task of the worker died (%s): %s", _name(task), error, exc_info=error,
                       extra={"action": "task_died"})  # fmt: skip
        return Exit.FAILED

    async def _drain(self) -> Exit:
        self.health.stopping = True
        _log.info("Draining: no new work is taken", extra={"action": "drain"})
        drains: Future = asyncio.gather(*(loop.drain(self._settings.drain_timeout_s) for loop in self.loops))
        now: Future = asyncio.create_task(self.stop.now.wait(), name="wait for a second signal")
        await asyncio.wait([drains, now], return_when=asyncio.FIRST_COMPLETED)
        now.cancel()
        if drains.done() and all(drains.result()):
            _log.info("Drained: everything taken is answered", extra={"action": "drained"})
            return Exit.CLEAN
        drains.cancel()
        blockers = "; ".join(filter(None, (loop.blockers() for loop in self.loops)))
        _log.error("Stopped before everything was finished: %s", blockers or "offsets are not committed",
                   extra={"action": "forced"})  # fmt: skip
        return Exit.FORCED

    def _start_admin_port(self, stack: AsyncExitStack) -> None:
        settings, health = self._settings, self.health
        server = AdminServer(
            settings.admin_host, settings.admin_port, live=health.live, ready=health.ready, metrics=self._metrics.text
        )
        server.start()
        stack.callback(server.stop)
        _log.info("Health and metrics are on port %d", server.port, extra={"action": "admin", "port": server.port})

    def _find_models(self) -> list[ModelSpec]:
        settings = self._settings
        specs = find_models(settings.models, settings.model, attempt_timeout_s=settings.attempt_timeout_s)
        if settings.isolation is not None:
            specs = [replace(spec, isolation=settings.isolation) for spec in specs]
        for spec in specs:
            for warning in spec.warnings:
                _log.warning("Model %s: %s", spec.name, warning, extra={"action": "model_warning"})
        return specs

    async def _create_topics(self, admin: Admin, specs: Sequence[ModelSpec]) -> None:
        settings = self._settings
        if not settings.create_topics:
            return
        await ensure_system_topics(admin, self._topics, settings.replication_factor, settings.reply_partitions)
        wanted = [
            topic
            for spec in specs
            for topic in model_topics(
                self._topics,
                spec.name,
                partitions=settings.partitions,
                replication_factor=settings.replication_factor,
            )
        ]
        await admin.create_topics(wanted)

    async def _load(self, loop: ModelLoop, announcer: Announcer) -> None:
        """Load one model and let it serve; a model that cannot be loaded leaves the others serving."""
        try:
            await loop.start()
        except (LoadFailed, RunnerDied) as err:
            _log.error("Model %s cannot be loaded: %s", loop.spec.name, err, extra={"action": "load_failed"})
        else:
            loaded = loop.loaded
            assert loaded is not None
            for warning in loaded.warnings:
                _log.warning("Model %s: %s", loop.spec.name, warning, extra={"action": "model_warning"})
            _log.info("Model %s version %s is ready after %.1f s", loop.spec.name, loop.spec.version, loaded.load_s,
                      extra={"action": "model_ready"})  # fmt: skip
        announcer.changed()

    def _announcements(self, now_ms: int) -> list[Announcement]:
        settings = self._settings
        return [
            announcement(
                settings.worker_id,
                loop.spec,
                loop.loaded,
                loop.device.state,
                loop.device.reason,
                heartbeat_s=settings.announce_interval_s,
                max_record_bytes=settings.max_record_bytes,
                now_ms=now_ms,
            )
            for loop in self.loops
        ]

    def _model_health(self) -> list[ModelHealth]:
        return [loop.health() for loop in self.loops]

    @staticmethod
    def _side(task: Coroutine[Any, Any, None], name: str, stack: AsyncExitStack) -> asyncio.Task[None]:
        running = asyncio.create_task(task, name=name)
        stack.callback(running.cancel)
        return running


def _name(task: Future) -> str:
    return task.get_name() if isinstance(task, asyncio.Task) else "a task"


async def serve(settings: WorkerSettings, broker: Broker | None = None) -> int:
    """Run a worker until TERM or INT; its exit code (see `Exit`).

    Raises:
        BrokerError: Kafka cannot be reached, or topics cannot be made.
        ModelsRefused: the model directory cannot be served.
        OSError: the admin port is taken.
    """
    set_up_logging(settings.log_level, settings.log_format)
    return await Worker(settings, broker or settings.broker()).serve()
