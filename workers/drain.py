"""Signals, and how a worker ends: the first TERM or INT drains within a budget, the second ends it now."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Exit(IntEnum):
    """Exit codes of the worker."""

    CLEAN = 0  # everything taken was finished
    FAILED = 1  # it could not start, or something died
    FORCED = 3  # unfinished work was left for others; the log says which


class StopRequest:
    """What the signals have asked for. The event loop sets it; any task waits on it."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.now = asyncio.Event()

    def signalled(self) -> None:
        (self.now if self.drain.is_set() else self.drain).set()


@contextmanager
def stop_signals(request: StopRequest) -> Iterator[None]:
    """Turn TERM and INT into the request while inside; install before anything slow."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request.signalled)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
