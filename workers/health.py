"""Whether the worker lives and is ready. Read by the admin thread; written by the event loop as plain values."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

TICK_S = 1.0
LONGEST_TICK_S = 15.0
LONGEST_SILENCE_S = 10.0
_log = logging.getLogger("headrace.worker")


class ModelHealth(Struct, frozen=True):
    """One model's state at a moment.

    Attributes:
        name: model name.
        ready: loaded and warmed up.
        reason: why it is not ready; may be empty.
        assigned: the group has given it partitions, or told it to stand by.
        polled_at: monotonic seconds of the last finished poll; None before it has joined its group.
        standby: it is ready, but other workers have all the partitions.
        stuck: it reads or commits nothing although it should, and joining its group anew has not helped.
    """

    name: str
    ready: bool
    reason: str
    assigned: bool
    polled_at: float | None
    standby: bool = False
    stuck: bool = False


class Health:
    """The answers to /livez and /readyz; None is yes, a sentence is no.

    `kafka_seen_at` tells when Kafka last acknowledged something, in monotonic seconds; `waits_for` what the start does.
    """

    def __init__(self, models: Callable[[], Sequence[ModelHealth]], longest_poll_s: float) -> None:
        self._models = models
        self._longest_poll_s = longest_poll_s
        self._ticked_at = time.monotonic()
        self._was_ready = False
        self.kafka_seen_at = time.monotonic
        self.waits_for = "its models"
        self.stopping = False
        self.quiet: Callable[[], bool] = lambda: False
        self.started = False

    async def tick(self) -> None:
        """Prove that the event loop turns, and log when the worker becomes ready or unready, until cancelled."""
        while True:
            self._ticked_at = time.monotonic()
            self._note(self.ready())
            await asyncio.sleep(TICK_S)

    def _note(self, reason: str | None) -> None:
        if reason is None and not self._was_ready:
            _log.info("Ready", extra={"action": "ready"})
        elif reason is not None and self._was_ready and not self.stopping:
            _log.warning("Not ready: %s", reason, extra={"action": "not_ready"})
        self._was_ready = reason is None

    def kafka_is_away(self) -> bool:
        return time.monotonic() - self.kafka_seen_at() > LONGEST_SILENCE_S

    def live(self) -> str | None:
        now = time.monotonic()
        if now - self._ticked_at > LONGEST_TICK_S:
            return f"the event loop has stood still for {now - self._ticked_at:.0f} s"
        for model in self._models():
            if self.stopping or self.kafka_is_away():
                break  # a drain polls no more, however long it may take, and no other process would fare better
            if model.polled_at is not None and now - model.polled_at > self._longest_poll_s:
                return f"model {model.name} has not polled Kafka for {now - model.polled_at:.0f} s"
            if model.stuck:
                return f"model {model.name} reads or commits nothing although it should, and joining anew did not help"
        return None

    def starting(self) -> str | None:
        """What the start waits for; None once each model is loaded, or has failed to."""
        return None if self.started and self._models() else f"the worker is starting: it waits for {self.waits_for}"

    def standby(self) -> str | None:
        """Which models have nothing to do, for other workers have all their partitions; None when all have some."""
        idle = [model.name for model in self._models() if model.ready and model.standby]
        return f"other workers have all partitions of model {', '.join(idle)}" if idle else None

    def ready(self) -> str | None:
        if self.stopping:
            return "the worker is stopping"
        if self.quiet():
            return "the worker is quiet: it takes no new work, TERM ends it"
        models = self._models()
        if starting := self.starting():
            return starting
        if self.kafka_is_away():
            return f"Kafka has not acknowledged anything for {time.monotonic() - self.kafka_seen_at():.0f} s"
        for model in models:
            if not model.ready:
                return f"model {model.name} is not ready: {model.reason or 'it is loading'}"
            if not model.assigned:
                return f"model {model.name} waits for partitions"
        return None
