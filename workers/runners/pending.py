"""The runs that a runner has not answered yet, oldest first, and the time limit of the one at the head."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from .runner import RunnerDied

Answered = TypeVar("Answered")


class Waiting(Struct, Generic[Answered], frozen=True):
    """One run that somebody waits for; number 0 is the load."""

    future: asyncio.Future[Answered]
    sequence: int
    slot: int
    timeout_s: float


class Pending(Generic[Answered]):
    """A run's time counts from when it came to the head. The event loop's thread uses it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_late: Callable[[Waiting[Answered]], None]) -> None:
        self._loop = loop
        self._on_late = on_late
        self._waiting: deque[Waiting[Answered]] = deque()
        self._head_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def head(self) -> Waiting[Answered] | None:
        """The run that the runner is at, or comes to next."""
        return self._waiting[0] if self._waiting else None

    def add(self, sequence: int, slot: int, timeout_s: float) -> asyncio.Future[Answered]:
        future: asyncio.Future[Answered] = self._loop.create_future()
        self._waiting.append(Waiting(future, sequence, slot, timeout_s))
        if len(self._waiting) == 1:
            self._new_head()
        return future

    def answer(self) -> Waiting[Answered]:
        """Take the head, which is answered."""
        head = self._waiting.popleft()
        if self._waiting:
            self._new_head()
        return head

    def fail(self, reason: str, started: Callable[[Waiting[Answered]], bool]) -> None:
        """End all: the runner died. Only the head can have been started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        head = True
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                waiting.future.set_exception(RunnerDied(reason, started=head and started(waiting)))
            head = False

    def _new_head(self) -> None:
        """Runs are short and the limit is long, so one timer is left running and looks again when it fires."""
        self._head_since = self._loop.time()
        due = self._head_since + self._waiting[0].timeout_s
        if self._timer is None or due < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        due = self._head_since + self._waiting[0].timeout_s
        if self._loop.time() >= due:
            self._on_late(self._waiting[0])
        else:
            self._timer = self._loop.call_at(due, self._look)
