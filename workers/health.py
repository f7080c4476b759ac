"""Whether the worker lives and is ready. Read by the admin thread; written by the event loop as plain values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

TICK_S = 1.0
LONGEST_TICK_S = 15.0


class ModelHealth(Struct, frozen=True):
    """One model's state at a moment.

    Attributes:
        name: model name.
        ready: loaded and warmed up.
        reason: why it is not ready; may be empty.
        assigned: the group has given it partitions, or told it to stand by.
        polled_at: monotonic seconds of the last finished poll; None before it has joined its group.
    """

    name: str
    ready: bool
    reason: str
    assigned: bool
    polled_at: float | None


class Health:
    """The answers to /livez and /readyz; None is yes, a sentence is no."""

    def __init__(self, models: Callable[[], Sequence[ModelHealth]], longest_poll_s: float) -> None:
        self._models = models
        self._longest_poll_s = longest_poll_s
        self._ticked_at = time.monotonic()
        self.stopping = False
        self.started = False

    async def tick(self) -> None:
        """Prove that the event loop turns, until cancelled."""
        while True:
            self._ticked_at = time.monotonic()
            await asyncio.sleep(TICK_S)

    def live(self) -> str | None:
        now = time.monotonic()
        if now - self._ticked_at > LONGEST_TICK_S:
            return f"the event loop has stood still for {now - self._ticked_at:.0f} s"
        for model in self._models():
            if self.stopping:
                break  # a drain polls no more, however long it may take
            if model.polled_at is not None and now - model.polled_at > self._longest_poll_s:
                return f"model {model.name} has not polled Kafka for {now - model.polled_at:.0f} s"
        return None

    def ready(self) -> str | None:
        if self.stopping:
            return "the worker is stopping"
        models = self._models()
        if not self.started or not models:
            return "the worker is starting"
        for model in models:
            if not model.ready:
                return f"model {model.name} is not ready: {model.reason or 'it is loading'}"
            if not model.assigned:
                return f"model {model.name} waits for partitions"
        return None
