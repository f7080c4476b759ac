"""Waking at a moment to some 50 us: event loops round their timers to milliseconds, which a schedule cannot spare."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from types import TracebackType
from typing import Self

CLOCK_MONOTONIC = 1
TFD_NONBLOCK, TFD_CLOEXEC = 0o4000, 0o2000000
SHORTEST_S = 20e-6  # nearer moments are now: waking costs as much


class _Timer(ctypes.Structure):
    """struct itimerspec: interval and value, each in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "in_s", "in_ns"))


class Alarm:
    """Sleeps until moments of time.perf_counter, by a timerfd on Linux. Belongs to one event loop and one task."""

    def __init__(self) -> None:
        self._rang = asyncio.Event()
        self._file = -1

    def __enter__(self) -> Self:
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._file = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
            if self._file < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create failed")
            asyncio.get_running_loop().add_reader(self._file, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            asyncio.get_running_loop().remove_reader(self._file)
            os.close(self._file)

    async def until(self, moment: float) -> None:
        """Return at the moment, or after one turn of the loop where it has passed."""
        left_s = moment - time.perf_counter()
        if left_s < SHORTEST_S or self._file < 0:
            await asyncio.sleep(max(left_s, 0.0))
            return
        self._rang.clear()
        timer = _Timer(0, 0, int(left_s), int(left_s % 1 * 1e9))
        self._libc.timerfd_settime(self._file, 0, ctypes.byref(timer), None)
        await self._rang.wait()

    def _ring(self) -> None:
        os.read(self._file, 8)
        self._rang.set()
