"""An event loop whose clock jumps: where a real loop sleeps, this one is at once at the time that it would wake at.

Hours of timers pass in milliseconds, in the same order every time. `time.monotonic` and `time.time` are patched to the
loop's clock for the length of a run, so that code which reads them agrees with the timers.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar
from unittest.mock import patch

Result = TypeVar("Result")

EPOCH_S = 1_800_000_000.0
LONGEST_JUMP_S = 3600.0
MOST_TURNS = 200_000  # of the loop at one moment; beyond it something spins

# How far the wall clock of whoever runs now is from the true one, in seconds.
skew_s: ContextVar[Callable[[], float]] = ContextVar("skew_s", default=lambda: 0.0)


class Stuck(Exception):
    """Nothing will ever happen again, or nothing but one moment."""


class VirtualClock:
    """The time of one run. `monotonic` counts from 1,000 s; `wall` is seconds since the epoch, with the skew of the
    simulated process that asks; `true_wall` has none."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def true_wall(self) -> float:
        return EPOCH_S + self.now_s

    def wall(self) -> float:
        return self.true_wall() + skew_s.get()()


class _JumpingSelector(selectors.SelectSelector):
    """Looks at the sockets without waiting, and moves the clock instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            # Only another thread or a signal could end this: give it a moment of real time.
            events = super().select(1.0)
            if not events:
                raise Stuck("every task waits for something that no timer and nobody else will bring")
            return events
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > MOST_TURNS:
            raise Stuck(f"the loop has turned {MOST_TURNS} times at one moment: something spins")
        self._clock.now_s += min(max(timeout, 0.0), LONGEST_JUMP_S)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop itself; `clock` is its time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(_JumpingSelector(self.clock))

    def time(self) -> float:
        return self.clock.now_s


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, Result]]) -> Result:
    """Run to the end in virtual time. Call it outside any loop; nothing in it may wait for threads or sockets.

    Raises:
        Stuck: it would never end.
    """
    loop = VirtualLoop()
    clock = loop.clock
    with (
        patch.object(time, "monotonic", clock.monotonic),
        patch.object(time, "time", clock.wall),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(main(clock))
