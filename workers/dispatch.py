"""batch -> run: closes batches as the rule says, and starts them in the free slots of the device."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from producer_sdk.errors import Cancelled, DeadlineExceeded

from .backlog import Backlog
from .batch import BatchRule, close_at
from .cancels import Cancels
from .events import heard
from .later import Later
from .log import bug
from .metrics import ModelMetrics
from .reply import Scribe
from .retry import Postponed
from .retry_records import origin_of
from .run import Device, Ran
from .work import Batch, Outcome, Work


class Neighbours(Struct, frozen=True):
    """What the dispatcher tells the steps beside it, and asks them.

    Attributes:
        hand_over: outcomes that are to be published.
        crowded: whether so many outcomes are unacknowledged that no further batch should run.
        write_ahead: commits that a request is about to be run again that may be deadly; False: it is not ours any more.
        postpone: requests that failed in a way that passes by itself.
        started: requests that a run begins with.
        moved: there is room, or a batch has ended.
    """

    hand_over: Callable[[Sequence[Outcome]], None]
    crowded: Callable[[], bool]
    write_ahead: Callable[[Work], Awaitable[bool]]
    postpone: Callable[[Sequence[Postponed]], None]
    started: Callable[[Sequence[Work]], None]
    moved: Callable[[], None]


class Dispatcher:
    """Turns what waits into batches, and batches into outcomes. One event loop touches it.

    Attributes:
        intake_paused: nothing more arrives, so that waiting for company cannot help.
        wake: to be set when a batch may be due.
    """

    def __init__(
        self,
        model: str,
        backlog: Backlog,
        later: Later,
        device: Device,
        scribe: Scribe,
        metrics: ModelMetrics,
        cancels: Cancels,
        neighbours: Neighbours,
    ) -> None:
        self._model = model
        self._backlog = backlog
        self._later = later
        self._device = device
        self._scribe = scribe
        self._metrics = metrics
        self._cancels = cancels
        self._tell = neighbours
        self._running: dict[int, asyncio.Task[None]] = {}
        self.wake = asyncio.Event()
        self.intake_paused = False
        self.rule = BatchRule(1, 1, 0.0)

    @property
    def running(self) -> int:
        """Batches on the device now."""
        return len(self._running)

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        return list(self._running.values())

    async def run(self) -> None:
        """Start batches until cancelled."""
        while True:
            now = time.monotonic()
            if now >= self._backlog.earliest_expiry or now >= self._later.earliest_expiry:
                self._expire(now)
            if now >= self._later.next_due:
                self._bring_back(now)
            due = self._due()
            if due <= now:
                self._start_batch()
                continue
            self.wake.clear()
            changes = min(due, self._backlog.earliest_expiry, self._later.next_due, self._later.earliest_expiry)
            await heard(self.wake, changes - now)

    def cancel_waiting(self) -> None:
        """Answer the requests that wait here and have been cancelled."""
        gone = self._backlog.take_out(self._is_cancelled) + self._later.take_out(self._is_cancelled)
        self._end(gone, Cancelled())

    def _is_cancelled(self, work: Work) -> bool:
        id = work.request.id
        return id in self._cancels and self._cancels.covers(id, origin_of(work.record).timestamp_ms)

    def _due(self) -> float:
        """When the next batch closes; infinite while nothing can run."""
        if not self._device.ready or len(self._running) >= self._device.slots or self._tell.crowded():
            return math.inf
        waiting = self._backlog.next_up(self.rule.max_rows)
        if waiting is None:
            return math.inf
        idle = not self._running
        return close_at(self.rule, waiting, idle=idle, intake_paused=self.intake_paused, run_s=self._device.run_s)

    def _start_batch(self) -> None:
        batch = self._backlog.take(self.rule.max_rows, self.rule.max_bytes)
        slot = next(slot for slot in range(self._device.slots) if slot not in self._running)
        self._metrics.batch_rows.add(batch.rows)
        self._metrics.batches += 1
        self._running[slot] = asyncio.create_task(self._run(slot, batch), name=f"run {self._model}")
        self._tell.moved()

    async def _run(self, slot: int, batch: Batch) -> None:
        try:
            ran = await self._run_surely(slot, batch)
        finally:
            del self._running[slot]
        self._tell.hand_over(self._unless_cancelled(batch, ran.outcomes))
        self._metrics.run_seconds.add(ran.run_s)
        for work in batch.works if batch.works[0].alone else ():
            work.source.ledger.take_back(work.source.offset)  # the worker has outlived it
        for work in ran.again:
            ledger, offset = work.source.ledger, work.source.offset
            if work.deaths:
                ledger.charge(offset, work.deaths)  # whoever runs it next has to know
            if ledger.is_ours:
                self._backlog.add(work)
        self._tell.postpone([each for each in ran.later if each.work.source.ledger.is_ours])
        if len(self._cancels) and (ran.again or ran.later):
            self.cancel_waiting()  # of what waits again, some may have been cancelled while it ran
        self.wake.set()
        self._tell.moved()

    async def _run_surely(self, slot: int, batch: Batch) -> Ran:
        try:
            if batch.works[0].alone and not await self._tell.write_ahead(batch.works[0]):
                return Ran([])
            self._tell.started(batch.works)
            return await self._device.run(slot, batch, self._scribe)
        except Exception as err:  # noqa: BLE001 - the top of a task: a bug of ours must still answer each request
            error = bug("a batch", self._model, err)
            return Ran([self._scribe.failed(work, error) for work in batch.works])

    def _unless_cancelled(self, batch: Batch, outcomes: list[Outcome]) -> list[Outcome]:
        """A request that was cancelled while it ran is told so; its result is of no use to anybody."""
        if not len(self._cancels):
            return outcomes
        gone = {id(work.source): work for work in batch.works if self._is_cancelled(work)}
        return [
            self._scribe.failed(gone[id(each.source)], Cancelled()) if id(each.source) in gone else each
            for each in outcomes
        ]

    def _bring_back(self, now: float) -> None:
        for work in self._later.take_due(now):
            self._backlog.add(work)

    def _expire(self, now: float) -> None:
        error = DeadlineExceeded("the deadline passed while the request waited for a batch")
        self._end(self._backlog.take_expired(now) + self._later.take_expired(now), error)

    def _end(self, works: Sequence[Work], error: Cancelled | DeadlineExceeded) -> None:
        if works:
            self._tell.hand_over([self._scribe.failed(work, error) for work in works])
            self._tell.moved()
