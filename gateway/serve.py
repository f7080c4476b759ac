"""The life of a gateway process: start, serve, drain."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from enum import IntEnum
from typing import Any, TypeVar

from producer_sdk.admin import AdminServer
from producer_sdk.broker import BrokerError

from .listen import BACKLOG, HttpServer, open_socket
from .parts import Parts
from .protocol import ConnectionLimits
from .settings import GatewaySettings
from .start import open_in_time

T = TypeVar("T")

FORCED_END_S = 2.0

log = logging.getLogger("headrace.gateway")


class Exit(IntEnum):
    """Exit codes of the process."""

    CLEAN = 0  # every request in flight was answered
    FAILED = 1  # it could not start, or could not go on
    FORCED = 3  # requests were cut off


class Stop:
    """The order to stop, from signals. Belongs to the event loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.now = asyncio.Event()
        self.patient = True

    def signal(self, number: int) -> None:
        """The first signal asks for an orderly end, the second ends at once; Ctrl-C does not wait for balancers."""
        if self.asked.is_set():
            self.now.set()
        self.patient = self.patient and number != signal.SIGINT
        self.asked.set()


def run(settings: GatewaySettings) -> int:
    """Serve until a signal, on uvloop where it is installed; the exit code."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(serve(settings))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(settings))


async def serve(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code, see `Exit`.

    1. listen to signals before anything slow
    2. open the admin port: alive, not ready
    3. connect to Kafka, which may start later than the gateway, and read the announcements
    4. serve HTTP, ready, until a signal
    5. not ready, but serve on until load balancers have heard of it
    6. stop accepting, finish what is in flight within the drain time
    7. disconnect from Kafka, close the admin port
    """
    stop = Stop()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:  # 1
        loop.add_signal_handler(number, stop.signal, number)
    try:
        return await _with_admin_port(settings, stop)
    except (OSError, BrokerError) as err:
        log.error("The gateway cannot serve: %s", _sentence(err), extra={"action": "gateway_failed"})
        return Exit.FAILED
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _with_admin_port(settings: GatewaySettings, stop: Stop) -> Exit:
    parts = Parts(settings)
    health = parts.health
    health.starting = f"waiting for Kafka at {settings.bootstrap_servers}"
    tick = asyncio.create_task(health.tick(), name="headrace-tick")
    admin = AdminServer(
        settings.host, settings.admin_port, live=health.not_live, ready=health.not_ready, metrics=parts.metrics.text
    )
    admin.start()  # 2
    try:
        return await _connected(settings, parts, stop, admin.port)
    finally:
        tick.cancel()
        await asyncio.to_thread(admin.stop)  # 7


async def _connected(settings: GatewaySettings, parts: Parts, stop: Stop, admin_port: int) -> Exit:
    async with AsyncExitStack() as opened:
        listening = opened.enter_context(open_socket(settings.host, settings.port))
        app = await _unless_stopped(open_in_time(parts, settings.broker(), opened), stop)  # 3
        if app is None:
            return Exit.CLEAN
        server = HttpServer(app, ConnectionLimits(settings.head_timeout_s, settings.max_connections))
        listening.listen(BACKLOG)
        serving = asyncio.create_task(server.serve([listening]), name="headrace-http")
        parts.health.starting = None
        log.info(
            "The gateway serves HTTP on %s:%d, its admin port is %d.",
            settings.host,
            listening.getsockname()[1],
            admin_port,
            extra={"action": "gateway_ready"},
        )
        return await _until_drained(settings, parts, stop, server, serving)


async def _until_drained(
    settings: GatewaySettings, parts: Parts, stop: Stop, server: HttpServer, serving: asyncio.Task[None]
) -> Exit:
    await _first_of(stop.asked, serving, None)  # 4
    if serving.done():
        serving.result()
        raise OSError("the HTTP server ended by itself")
    parts.health.stopping = True
    log.info("The gateway stops.", extra={"action": "gateway_stopping"})
    if stop.patient:
        await _first_of(stop.now, None, settings.endpoint_lag_s)  # 5
    server.should_exit = True
    await _first_of(stop.now, serving, settings.drain_timeout_s)  # 6
    left = parts.admission.inflight
    server.force_exit = True
    # From Python 3.12 on a server may wait for its open connections, also when told not to.
    await asyncio.wait({serving}, timeout=FORCED_END_S)
    serving.cancel()
    if not left:
        return Exit.CLEAN
    log.error("%d requests were cut off at the end.", left, extra={"action": "gateway_forced"})
    return Exit.FORCED


async def _unless_stopped(work: Coroutine[Any, Any, T], stop: Stop) -> T | None:
    """The work's result; None when told to stop before."""
    task = asyncio.ensure_future(work)
    await _first_of(stop.asked, task, None)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait({task})
    return None


async def _first_of(event: asyncio.Event, task: asyncio.Task[Any] | None, timeout_s: float | None) -> None:
    """Wait for the event or the task's end, no longer than the time given; the task goes on."""
    wait = asyncio.ensure_future(event.wait())
    watched = {wait} if task is None else {wait, task}
    try:
        await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        wait.cancel()


def _sentence(err: Exception) -> str:
    return err.message if isinstance(err, BrokerError) else str(err)
