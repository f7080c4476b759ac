"""THE order of steps for one model: consume -> decode -> backlog -> batch -> run -> reply -> commit.

Four tasks turn it: `_take` (consume, decode, backlog), `_dispatch` (batch, run), the replier's (reply) and the intake's
(commit).
No other file knows this order.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from functools import partial

from producer_sdk.announcements import ModelState
from producer_sdk.broker import Admin, Broker, Producer, Record, TopicPartition
from producer_sdk.errors import DeadlineExceeded
from producer_sdk.topics import Topics

from .backlog import Backlog, usual_requests
from .batch import BatchRule, close_at
from .commit import PartitionLedger
from .consume import Intake
from .decode import Decoder, Now
from .events import heard
from .health import ModelHealth
from .log import bug
from .metrics import ModelMetrics
from .publish import Destinations, Replier
from .reply import Scribe
from .run import Device, Ran
from .runners.engine import Loaded, ModelSpec
from .runners.load import make_runner
from .settings import WorkerSettings
from .work import Batch, Outcome, Source, Work

MAX_HAUL = 256  # thousands of records alive at once cost twice as much each
POLL_S = 0.25
HOLD_S = 0.5
LAST_COMMIT_S = 5.0
_log = logging.getLogger("headrace.worker")


class ModelLoop:
    """Serves one model version. One event loop touches it."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: WorkerSettings,
        broker: Broker,
        producer: Producer,
        admin: Admin,
        changed: asyncio.Event,
    ) -> None:
        topics = Topics(settings.prefix)
        self.spec = spec
        self.loaded: Loaded | None = None
        self.polled_at = time.monotonic()
        self._settings = settings
        self._changed = changed  # others should be told of this model's state
        self._topics = topics
        self._backlog = Backlog(settings.max_backlog_requests or usual_requests(1), settings.max_backlog_bytes)
        self._wake = asyncio.Event()  # a batch may be due
        self._room = asyncio.Event()  # intake may go on
        self._finished = asyncio.Event()  # offsets may be committed
        self._quiet = asyncio.Event()  # nothing waits, runs or is unacknowledged
        self._stopping = False
        self._intake_paused = False
        self._running: dict[int, asyncio.Task[None]] = {}
        new_runner = partial(make_runner, spec, max_batch_bytes=settings.max_batch_bytes)
        self.device = Device(new_runner, settings.attempt_limit, spec.name, self._device_changed)
        self._scribe = Scribe(topics, spec.name, spec.version, settings.max_record_bytes)
        self._replier = Replier(producer, Destinations(admin), self._scribe, self._published, self._running.__len__)
        self.intake = Intake(
            broker,
            topics,
            spec.name,
            settings.group_options(),
            settle=self._settle,
            lost=self._lost,
            changed=changed.set,
        )
        self.metrics = ModelMetrics(
            spec.name, backlog=lambda: len(self._backlog), lag=self.intake.lag, deaths=lambda: self.device.deaths
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Load the model, then join its group and serve.

        Raises:
            LoadFailed, RunnerDied: the model cannot be loaded.
            BrokerError: the group cannot be joined.
        """
        loaded = await self.device.start()
        self.loaded = loaded
        self._decoder = Decoder(self._topics, self.spec, loaded)
        self._backlog.max_requests = self._settings.max_backlog_requests or usual_requests(loaded.max_batch_size)
        self._rule = BatchRule(loaded.max_batch_size, self._settings.max_batch_bytes, self.spec.max_wait_ms / 1000)
        await self.intake.start()
        steps = {"take": self._take(), "dispatch": self._dispatch(), "reply": self._replier.run()}
        steps["commit"] = self.intake.keep_committing(self._finished, self._settings.commit_interval_s)
        self._tasks = [asyncio.create_task(step, name=f"{name} {self.spec.name}") for name, step in steps.items()]

    @property
    def serving(self) -> bool:
        """Loaded and a member of its group."""
        return bool(self._tasks)

    def health(self) -> ModelHealth:
        polled_at, device = self.polled_at if self._tasks else None, self.device
        ready = device.state is ModelState.READY
        return ModelHealth(self.spec.name, ready, device.reason, self.intake.assignments > 0, polled_at)

    def standing(self) -> tuple[ModelState, str]:
        """What others are told of the model: READY once it is loaded and its group has given out partitions."""
        if self.device.state is ModelState.READY and not self.intake.assignments:
            return ModelState.LOADING, "it waits for partitions"
        return self.device.state, self.device.reason

    def _device_changed(self) -> None:
        self._wake.set()
        self._changed.set()

    async def failed(self) -> BaseException:
        """Wait until one of the tasks dies; why it did."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        return next((err for task in done if (err := task.exception())), RuntimeError("a task of the loop ended"))

    async def _take(self) -> None:
        """consume -> decode -> backlog, until the loop stops."""
        while not self._stopping:
            room = 0 if self._replier.full else min(MAX_HAUL, self._backlog.room)
            if room:
                self._intake_paused = False
                await self._haul(room, POLL_S)
                await asyncio.sleep(0)  # a poll that finds records does not yield by itself
            else:
                await self._hold()

    async def _haul(self, max_records: int, timeout_s: float) -> None:
        records = await self.intake.poll(max_records, timeout_s)
        self.polled_at = time.monotonic()
        if records:
            now = Now(self.polled_at, int(time.time() * 1000))
            for partition, haul in records.items():
                self._decode(partition, haul, now)
            self._wake.set()

    def _decode(self, partition: TopicPartition, records: Sequence[Record], now: Now) -> None:
        ledger = self.intake.ledgers.get(partition)
        if ledger is None:  # lost since the haul was fetched; its next owner reads these records
            return
        lane = self.intake.lane(partition.topic)
        rejected: list[Outcome] = []
        for record in records:
            offset = record.offset
            if ledger.take(offset):
                source = Source(ledger, offset)
                try:
                    item = self._decoder.decode(record, source, lane, now)
                except Exception as err:  # noqa: BLE001 - the border to foreign bytes, which must not stop the worker
                    item = self._decoder.unreadable(record, bug("decoding", self.spec.name, err), source, lane, now)
                if isinstance(item, Work):
                    self._backlog.add(item)
                else:
                    rejected.append(self._scribe.rejected(item))
        if rejected:
            self._replier.put(rejected)

    async def _hold(self) -> None:
        """No room: pause the partitions and keep polling, so that the membership lives on."""
        self._intake_paused = True
        self._wake.set()
        while self._crowded():
            self.intake.pause()
            await self._haul(1, 0.0)
            polls_again = time.monotonic() + HOLD_S
            while self._crowded() and (left_s := polls_again - time.monotonic()) > 0:
                self._room.clear()
                await heard(self._room, left_s)
        self.intake.resume()

    def _crowded(self) -> bool:
        return not self._stopping and (self._replier.full or not self._backlog.half_empty)

    async def _dispatch(self) -> None:
        """batch -> run: close batches as the rule says and start them in free slots."""
        while True:
            now = time.monotonic()
            if now >= self._backlog.earliest_expiry:
                self._expire(now)
            due = self._due()
            if due <= now:
                self._start_batch()
                continue
            self._wake.clear()
            await heard(self._wake, min(due, self._backlog.earliest_expiry) - now)

    def _due(self) -> float:
        """When the next batch closes; infinite while nothing can run."""
        if not self.device.ready or len(self._running) >= self.device.slots or self._replier.full:
            return math.inf
        waiting = self._backlog.next_up(self._rule.max_rows)
        if waiting is None:
            return math.inf
        idle, paused = not self._running, self._intake_paused or self._stopping
        return close_at(self._rule, waiting, idle=idle, intake_paused=paused, run_s=self.device.run_s)

    def _start_batch(self) -> None:
        batch = self._backlog.take(self._rule.max_rows, self._rule.max_bytes)
        slot = next(slot for slot in range(self.device.slots) if slot not in self._running)
        self.metrics.batch_rows.add(batch.rows)
        self.metrics.batches += 1
        self._running[slot] = asyncio.create_task(self._run(slot, batch), name=f"run {self.spec.name}")
        self._room.set()

    async def _run(self, slot: int, batch: Batch) -> None:
        try:
            ran = await self.device.run(slot, batch, self._scribe)
        except Exception as err:  # noqa: BLE001 - the top of a task: a bug of ours must still answer each request
            error = bug("a batch", self.spec.name, err)
            ran = Ran([self._scribe.failed(work, error) for work in batch.works])
        finally:
            del self._running[slot]
        self._replier.put(ran.outcomes)
        self.metrics.run_seconds.add(ran.run_s)
        for work in ran.again:
            if not work.source.ledger.fenced:
                self._backlog.add(work)
        self._wake.set()
        self._note_quiet()

    def _expire(self, now: float) -> None:
        error = DeadlineExceeded("the deadline passed while the request waited for a batch")
        self._replier.put([self._scribe.failed(work, error) for work in self._backlog.take_expired(now)])
        self._room.set()

    def _published(self, outcomes: Sequence[Outcome]) -> None:
        """Called when outcomes are acknowledged and their offsets finished."""
        self.metrics.count(outcomes, time.monotonic())
        self._finished.set()
        self._room.set()
        self._wake.set()
        self._note_quiet()

    def _note_quiet(self) -> None:
        if len(self._backlog) or self._running or self._replier.unacknowledged:
            self._quiet.clear()
        else:
            self._quiet.set()

    async def _settle(self, leaving: Sequence[PartitionLedger]) -> None:
        """Partitions are going: forget what has not started, finish what has, within the drain budget."""
        self._lost(leaving)
        if leaving and not await heard(self._quiet, self._settings.drain_timeout_s):
            _log.warning("%s: others will run it again", self.blockers(), extra={"action": "settle_timeout"})
            self._lost(leaving)

    def _lost(self, ledgers: Sequence[PartitionLedger]) -> None:
        self._backlog.drop(ledgers)
        self._room.set()
        self._note_quiet()

    async def drain(self, timeout_s: float) -> bool:
        """Stop taking, finish everything taken, commit; False when the time ran out first."""
        self._stopping = True
        self._wake.set()
        self._room.set()
        if not self._tasks:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait([self._tasks[0]])
                self._note_quiet()
                await self._quiet.wait()
        except TimeoutError:
            pass  # what is finished is committed all the same
        return await self.intake.commit_within(LAST_COMMIT_S) and not self.blockers()

    async def stop(self, leave_timeout_s: float) -> None:
        """End everything at once; what is unfinished will be read again."""
        for task in [*self._tasks, *self._running.values()]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._running.values(), return_exceptions=True)
        await self.intake.stop(leave_timeout_s)
        await self.device.stop(1.0)

    def blockers(self) -> str:
        """What is unfinished, as a sentence; empty when nothing is."""
        running, waiting, unsent = len(self._running), len(self._backlog), self._replier.unacknowledged
        if not running + waiting + unsent:
            return ""
        return (
            f"model {self.spec.name}: {running} batches on the device, {waiting} requests waiting, "
            f"{unsent} replies not acknowledged"
        )
