"""batch -> run: closes batches as the rule says, and starts them in the free slots of the device."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from producer_sdk.errors import Cancelled, DeadlineExceeded
from producer_sdk.topics import Lane

from .backlog import Backlog
from .cancels import Cancels
from .device_share import DeviceShare, Urgency
from .events import Bell
from .later import Later
from .learned import Learned
from .log import bug
from .metrics import ModelMetrics
from .occupancy import DEPTH, Occupancy
from .replicas import AnyDevice
from .reply import Scribe
from .retry import Postponed
from .retry_records import origin_of
from .run import Ran
from .work import Batch, Outcome, Work

DOUBT_S = 1.0  # where nothing has run for so long, one that seems hopeless is tried, so that its time is learned anew


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
        device: AnyDevice,
        scribe: Scribe,
        metrics: ModelMetrics,
        cancels: Cancels,
        learned: Learned,
        neighbours: Neighbours,
        share: DeviceShare | None = None,
    ) -> None:
        self._model = model
        self._backlog = backlog
        self._later = later
        self._device = device
        self._scribe = scribe
        self._metrics = metrics
        self._cancels = cancels
        self._learned = learned
        self._occupancy = Occupancy(device.runners)
        self._ran_at = -math.inf
        self._share = share  # of a device that other models use, too
        self._tell = neighbours
        self._running: dict[int, asyncio.Task[None]] = {}
        self.wake = Bell()
        self.intake_paused = False
        if share is not None:
            share.join(model, self.wake.set, most=DEPTH * device.runners)

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
            self._backlog.doubts_run_times = not self._running and now - self._ran_at > DOUBT_S
            if now >= self._backlog.next_change or now >= self._later.earliest_expiry:
                self._expire(now)
            if now >= self._later.next_due:
                self._bring_back(now)
            due = self._due(now)
            if due <= now:
                self._start_batch(now)
                continue
            self.wake.clear()
            changes = min(due, self._backlog.next_change, self._later.next_due, self._later.earliest_expiry)
            await self.wake.heard(changes - now)

    def cancel_waiting(self) -> None:
        """Answer the requests that wait here and have been cancelled."""
        gone = self._backlog.take_out(self._is_cancelled) + self._later.take_out(self._is_cancelled)
        self._end(gone, Cancelled())

    def _is_cancelled(self, work: Work) -> bool:
        id = work.request.id
        return id in self._cancels and self._cancels.covers(id, origin_of(work.record).timestamp_ms)

    def _due(self, now: float) -> float:
        """When the next batch closes; infinite while nothing can run."""
        due = math.inf
        deep = len(self._running) >= DEPTH * self._device.runners
        # What lies ready can make way for nobody, and be cancelled by nobody.
        may = not deep or (self._share is None and not self._occupancy.is_late(now))
        if may and self._device.free_slot(self._running) is not None and not self._tell.crowded():
            self._learned.bound(self._backlog, now)
            due = self._backlog.close_at(
                now,
                idle=not self._running if self._backlog.in_order else self._device.idle(self._running),
                intake_paused=self.intake_paused,
                free_at=self._occupancy.first_free_at(now),
                deep=deep,
            )
        return due if self._share is None else self._in_turn(self._share, due, now)

    def _in_turn(self, share: DeviceShare, due: float, now: float) -> float:
        """When it starts on a device that other models use, too; infinite until they let it."""
        if due > now:
            share.waiting(self._model, None)
            return due
        lane, arrived = self._backlog.leading or (Lane.ASYNC, now)
        return due if share.may_start(self._model, now, Urgency(lane, arrived)) else math.inf

    def _start_batch(self, now: float) -> None:
        slot = self._device.free_slot(self._running)
        assert slot is not None, "a batch is due only while one is free"
        starts_at = self._occupancy.free_at(slot, now)
        batch = self._backlog.take(now, starts_at)
        self._learned.took(batch, self._backlog, now)
        self._occupancy.takes(slot, starts_at + self._learned.predict_s(batch))
        self._metrics.took(batch)
        if self._share is not None:
            self._share.started(self._model, now)
        self._running[slot] = asyncio.create_task(self._run(slot, batch), name=f"run {self._model}")
        self._tell.moved()

    async def _run(self, slot: int, batch: Batch) -> None:
        try:
            ran = await self._run_surely(slot, batch)
        finally:
            del self._running[slot]
            self._occupancy.leaves(slot)
            self._ran_at = time.monotonic()
        if self._share is not None:
            self._share.ended(self._model, ran.run_s, self._ran_at)
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
        hopeless = self._backlog.take_hopeless(now, self._occupancy.first_free_at(now))
        self._metrics.refused_early += len(hopeless)
        overdue = [work for work in hopeless if self._backlog.is_overdue(work, now)]
        self._end(overdue, DeadlineExceeded("not run, for it had waited longer than queue_timeout_s"))
        late = [work for work in hopeless if not self._backlog.is_overdue(work, now)]
        self._end(late, DeadlineExceeded("not run, for the deadline would have passed before the batch had ended"))

    def _end(self, works: Sequence[Work], error: Cancelled | DeadlineExceeded) -> None:
        if works:
            self._tell.hand_over([self._scribe.failed(work, error) for work in works])
            self._tell.moved()
