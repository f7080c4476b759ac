"""The worker process from start to end: broker, topics, models, admin port, signals, drain."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace

from producer_sdk.admin import AdminServer
from producer_sdk.announcements import Announcement
from producer_sdk.broker import Admin, Broker, BrokerError, Producer
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Topics

from .announce import Announcer, announcement
from .drain import Exit, StopRequest, stop_signals
from .events import unless
from .health import Health, ModelHealth
from .log import set_up_logging
from .loop import ModelLoop
from .metrics import WorkerMetrics
from .models import find_models
from .runners.engine import LoadFailed, ModelSpec
from .runners.runner import RunnerDied
from .settings import WorkerSettings

LEAVE_TIMEOUT_S = 5.0
REACH_PAUSE_S = 0.5
LEAVE_AT_ONCE_S = 0.5
Watched = asyncio.Task[Any]
_log = logging.getLogger("headrace.worker")


class Worker:
    """All models of one worker process. One event loop touches it."""

    def __init__(self, settings: WorkerSettings, broker: Broker) -> None:
        self._settings = settings
        self._broker = broker
        self._topics = Topics(settings.prefix)
        self.loops: list[ModelLoop] = []
        self._metrics = WorkerMetrics()
        self._changed = asyncio.Event()
        self._tried = 0  # models that are loaded, or have failed to
        self.health = Health(self._model_health, settings.max_poll_interval_s)
        self.stop = StopRequest()

    async def serve(self) -> Exit:
        """Serve until a signal.

        1. signals and admin port, before anything slow
        2. the models, topics, and the announcements
        3. load every model and join its group
        4. wait for a signal or a death; after a signal serve on until nobody is sent here any more
        5. drain, commit, leave
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(stop_signals(self.stop))  # 1
            self._start_admin_port(stack)
            specs = self._find_models()  # 2
            producer = await unless(self.stop.drain, self._connect(specs, stack))
            if producer is None:
                return Exit.CLEAN
            announcer = Announcer(
                producer,
                self._topics.control,
                self._announcements,
                self._settings.announce_interval_s,
                self._changed,
            )
            self.health.kafka_seen_at = lambda: announcer.acknowledged_at
            sides = [
                asyncio.create_task(announcer.run(), name="announce"),
                asyncio.create_task(self.health.tick(), name="tick"),
            ]
            try:
                return await self._serve_until_told(sides)
            finally:
                for side in sides:
                    side.cancel()
                await announcer.leave(LEAVE_TIMEOUT_S)

    async def _connect(self, specs: Sequence[ModelSpec], stack: AsyncExitStack) -> Producer:
        """Reach the broker, see to the topics, and make a loop for each model."""
        admin, producer = await self._reach_kafka()
        stack.push_async_callback(admin.stop)
        stack.push_async_callback(producer.stop, LEAVE_TIMEOUT_S)
        await self._see_to_topics(admin, specs)
        self.loops = [ModelLoop(spec, self._settings, self._broker, producer, admin, self._changed) for spec in specs]
        self._metrics.models = [loop.metrics for loop in self.loops]
        return producer

    async def _reach_kafka(self) -> tuple[Admin, Producer]:
        """Clients that have reached Kafka, which may start later than the worker.

        Raises:
            BrokerError: it is not there within `start_timeout_s`.
        """
        self.health.waits_for = f"Kafka at {self._settings.bootstrap_servers}"
        ends = time.monotonic() + self._settings.start_timeout_s
        said = False
        while True:
            admin, producer = self._broker.admin(), self._broker.producer()
            try:
                await admin.start()
                await producer.start()
            except BrokerError as err:
                await admin.stop()
                if time.monotonic() >= ends:
                    raise
                if not said:
                    _log.warning("Waiting for Kafka: %s", err, extra={"action": "wait_for_kafka"})
                said = True
                await asyncio.sleep(REACH_PAUSE_S)
            else:
                self.health.waits_for = "its models"
                return admin, producer

    async def _serve_until_told(self, sides: Sequence[asyncio.Task[None]]) -> Exit:
        models = [asyncio.create_task(self._serve_model(loop), name=f"model {loop.spec.name}") for loop in self.loops]
        watched: list[Watched] = [*models, *sides]
        try:
            if dead := await _first_of(watched, self.stop.drain):  # 3, 4
                return self._report_death(dead)
            self.health.stopping = True
            lag_s = self._settings.endpoint_lag_s if any(loop.serving for loop in self.loops) else 0.0
            _log.info("Stopping: serving on for %g s, until others have heard of it", lag_s, extra={"action": "stop"})
            if dead := await _first_of(watched, self.stop.now, lag_s):
                return self._report_death(dead)
            await _cancelled(models)
            return await self._drain()  # 5
        finally:
            self.health.stopping = True
            await _cancelled(models)
            leave_timeout_s = LEAVE_AT_ONCE_S if self.stop.now.is_set() else LEAVE_TIMEOUT_S
            await asyncio.gather(*(loop.stop(leave_timeout_s) for loop in self.loops))

    def _report_death(self, dead: Watched) -> Exit:
        """Log why a task died.

        Raises:
            BrokerError: a group could not be joined at the start.
        """
        error = dead.exception() or dead.result()
        if isinstance(error, BrokerError):
            raise error
        _log.error("A task of the worker died (%s): %s", dead.get_name(), error, exc_info=error,
                   extra={"action": "task_died"})  # fmt: skip
        return Exit.FAILED

    async def _drain(self) -> Exit:
        self.health.stopping = True
        _log.info("Draining: no new work is taken", extra={"action": "drain"})
        drained = await unless(self.stop.now, self._drain_loops())
        if drained is not None and all(drained):
            _log.info("Drained: everything taken is answered", extra={"action": "drained"})
            return Exit.CLEAN
        blockers = "; ".join(filter(None, (loop.blockers() for loop in self.loops)))
        _log.error("Stopped before everything was finished: %s", blockers or "the last offsets are not committed",
                   extra={"action": "forced"})  # fmt: skip
        return Exit.FORCED

    async def _drain_loops(self) -> list[bool]:
        return await asyncio.gather(*(loop.drain(self._settings.drain_timeout_s) for loop in self.loops))

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

    async def _see_to_topics(self, admin: Admin, specs: Sequence[ModelSpec]) -> None:
        """Create the topics that are missing; where that is not wanted, say which are."""
        settings, topics = self._settings, self._topics
        counts = {"partitions": settings.partitions, "replication_factor": settings.replication_factor}
        wanted = [topic for spec in specs for topic in model_topics(topics, spec.name, **counts)]
        if settings.create_topics:
            await ensure_system_topics(admin, topics, settings.replication_factor, settings.reply_partitions)
            await admin.create_topics(wanted)
            return
        missing = {topics.control, *(topic.name for topic in wanted)} - (await admin.topics()).keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise BrokerError(f"topics {names} do not exist: create them, or let the worker do it by create_topics")

    async def _serve_model(self, loop: ModelLoop) -> BaseException:
        """Load one model and let it serve until it dies; one that cannot be loaded leaves the others serving."""
        try:
            await loop.start()
        except (LoadFailed, RunnerDied) as err:
            _log.error("Model %s cannot be loaded: %s", loop.spec.name, err, extra={"action": "load_failed"})
        else:
            self._welcome(loop)
        self._tried += 1
        self.health.started = self._tried == len(self.loops)
        self._changed.set()
        if not loop.serving:
            await asyncio.Event().wait()
        return await loop.failed()

    def _welcome(self, loop: ModelLoop) -> None:
        loaded = loop.loaded
        assert loaded is not None
        for warning in loaded.warnings:
            _log.warning("Model %s: %s", loop.spec.name, warning, extra={"action": "model_warning"})
        _log.info("Model %s version %s is ready after %.1f s", loop.spec.name, loop.spec.version, loaded.load_s,
                  extra={"action": "model_ready"})  # fmt: skip

    def _announcements(self, now_ms: int) -> list[Announcement]:
        settings = self._settings
        return [
            announcement(
                settings.worker_id,
                loop.spec,
                loop.loaded,
                *loop.standing(),
                heartbeat_s=settings.announce_interval_s,
                max_record_bytes=settings.max_record_bytes,
                now_ms=now_ms,
            )
            for loop in self.loops
        ]

    def _model_health(self) -> list[ModelHealth]:
        return [loop.health() for loop in self.loops]


async def _first_of(watched: Sequence[Watched], event: asyncio.Event, timeout_s: float | None = None) -> Watched | None:
    """The first of the tasks to end; None when the event or the end of the time comes before."""
    told = asyncio.create_task(event.wait(), name="wait for a signal")
    try:
        done, _ = await asyncio.wait([told, *watched], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return None if told in done else next(iter(done), None)
    finally:
        told.cancel()


async def _cancelled(tasks: Sequence[Watched]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def serve(settings: WorkerSettings, broker: Broker | None = None) -> int:
    """Run a worker until TERM or INT; its exit code (see `Exit`).

    Raises:
        BrokerError: Kafka cannot be reached, or topics cannot be made.
        ModelsRefused: the model directory cannot be served.
        OSError: the admin port is taken.
    """
    set_up_logging(settings.log_level, settings.log_format)
    return await Worker(settings, broker or settings.broker()).serve()
