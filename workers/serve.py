"""The worker process from start to end: broker, topics, models, admin port, signals, drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from producer_sdk.admin import AdminServer
from producer_sdk.announcements import Announcement
from producer_sdk.broker import Broker, BrokerError
from producer_sdk.byte_gate import ByteGate
from producer_sdk.topics import Topics

from .announce import Announcer, announcement
from .cancels import Cancels
from .connect import artifacts_for, event_log, payloads_for, reach_kafka, redis_for, see_to_topics
from .device_share import shares
from .drain import Budget, Exit, StopRequest, stop_signals
from .events import unless
from .health import Health, ModelHealth
from .log import set_up_logging
from .loop import ModelLoop
from .metrics import WorkerMetrics
from .models import find_models
from .overrides import overridden
from .runners.engine import LoadFailed, ModelSpec
from .runners.runner import RunnerDied
from .settings import WorkerSettings
from .shared import Shared
from .turn import Turn

LEAVE_TIMEOUT_S = 5.0
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
        self._goodbyes = Budget(LEAVE_TIMEOUT_S)
        self.health.quiet = self.stop.quiet.is_set
        self._cancels = cancels = Cancels(broker, self._topics, settings.clock_skew_allowance_s, self._cancelled)
        self._metrics.left_out["cancels_unreadable"] = lambda: cancels.unreadable
        self._metrics.left_out["cancels_crowded_out"] = lambda: cancels.crowded_out

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
            shared = await unless(self.stop.drain, self._connect(specs, stack))
            if shared is None:
                return Exit.CLEAN
            self.loops = [ModelLoop(spec, self._settings, shared) for spec in specs]
            self._metrics.models = [loop.metrics for loop in self.loops]
            announcer = Announcer(
                shared.producer,
                self._topics.control,
                self._announcements,
                self._settings.announce_interval_s,
                self._changed,
            )
            self.health.kafka_seen_at = lambda: announcer.acknowledged_at
            sides = self._side_tasks(announcer, shared)
            try:
                return await self._serve_until_told(sides)
            finally:
                for side in sides:
                    side.cancel()
                await asyncio.wait(sides, timeout=self._goodbyes.left_s())  # they close what they have open
                if shared.events is not None:
                    await shared.events.flush(self._goodbyes.left_s())
                await announcer.leave(self._goodbyes.left_s())

    def _side_tasks(self, announcer: Announcer, shared: Shared) -> list[asyncio.Task[None]]:
        sides = {
            "announce": announcer.run(),
            "tick": self.health.tick(),
            "cancels": self._cancels.run(),
            "quiet": self._become_quiet(),
        }
        if shared.events is not None:
            sides["events"] = shared.events.run()
        return [asyncio.create_task(side, name=name) for name, side in sides.items()]

    async def _connect(self, specs: Sequence[ModelSpec], stack: AsyncExitStack) -> Shared:
        redis = redis_for(self._settings, specs, stack)  # first: a bad address is told before the wait for Kafka
        payloads = payloads_for(self._settings, specs, stack)
        lay_out = artifacts_for(self._settings, stack).lay_out
        clients = await reach_kafka(self._broker, self._settings, self.health, stack, self._goodbyes)
        await see_to_topics(clients.admin, self._settings, specs)
        events = event_log(self._settings, clients.producer)
        if events is not None:
            self._metrics.left_out["events_dropped"] = lambda: events.dropped
        return Shared(self._broker, *clients, self._changed, self.stop.quiet, self.health.kafka_is_away, self._cancels,
                      Turn(), shares(specs), events, redis, payloads,
                      ByteGate(self._settings.max_fetch_bytes), lay_out)  # fmt: skip

    def _cancelled(self) -> None:
        for loop in self.loops:
            loop.cancel_waiting()

    async def _become_quiet(self) -> None:
        await self.stop.quiet.wait()
        _log.warning("Quiet: no new work is taken, the partitions are kept; TERM ends it", extra={"action": "quiet"})
        self._changed.set()
        await asyncio.Event().wait()

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
            if self.stop.now.is_set():
                self._goodbyes.shorten(LEAVE_AT_ONCE_S)
            await asyncio.gather(*(loop.stop(self._goodbyes.left_s()) for loop in self.loops))

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
            settings.admin_host,
            settings.admin_port,
            live=health.live,
            ready=health.ready,
            metrics=self._metrics.text,
            started=health.starting,
            standby=health.standby,
        )
        server.start()
        stack.callback(server.stop)
        _log.info("Health and metrics are on port %d", server.port, extra={"action": "admin", "port": server.port})

    def _find_models(self) -> list[ModelSpec]:
        settings = self._settings
        specs = find_models(
            settings.models,
            settings.model,
            attempt_timeout_s=settings.attempt_timeout_s,
            replicas=settings.replicas,
        )
        specs = overridden(specs, settings)
        for spec in specs:
            for warning in spec.warnings:
                _log.warning("Model %s: %s", spec.name, warning, extra={"action": "model_warning"})
        return specs

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
