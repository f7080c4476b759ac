"""Signals: the first TERM or INT drains within a budget, the second ends the worker now; USR1 makes it quiet."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
QUIET_SIGNAL = signal.SIGUSR1
LEAST_GOODBYE_S = 0.2


class Exit(IntEnum):
    """Exit codes of the worker."""

    CLEAN = 0  # everything taken was finished
    FAILED = 1  # it could not start, or something died
    FORCED = 3  # unfinished work was left for others; the log says which


class StopRequest:
    """What the signals have asked for. The event loop sets it; any task waits on it."""

    def __init__(self) -> None:
        self.quiet = asyncio.Event()  # take no new work, but stay in the groups
        self.drain = asyncio.Event()
        self.now = asyncio.Event()

    def signalled(self) -> None:
        (self.now if self.drain.is_set() else self.drain).set()


class Budget:
    """Seconds that the goodbyes of a worker share, from the first of them on: Kafka may answer none of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: float | None = None

    def shorten(self, seconds: float) -> None:
        self._seconds = min(self._seconds, seconds)

    def left_s(self) -> float:
        """What is left for the next one; each may at least try."""
        now = time.monotonic()
        self._ends = now + self._seconds if self._ends is None else self._ends
        return max(LEAST_GOODBYE_S, self._ends - now)


@contextmanager
def stop_signals(request: StopRequest) -> Iterator[None]:
    """Turn TERM, INT and USR1 into the request while inside; install before anything slow."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(QUIET_SIGNAL, request.quiet.set)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request.signalled)
    try:
        yield
    finally:
        for number in (QUIET_SIGNAL, *STOP_SIGNALS):
            loop.remove_signal_handler(number)
