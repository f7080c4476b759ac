"""THE order of steps for one model: consume -> decode -> backlog -> batch -> run -> reply -> commit.

Four tasks turn it: that of taking (consume, decode, backlog), the dispatcher's (batch, run), the replier's (reply) and
the intake's (commit). After a worker has ended without a goodbye, taking begins with an inspection.
No other file knows this order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from producer_sdk.announcements import ModelState
from producer_sdk.topics import Topics

from .announce import standing
from .backlog import Backlog, usual_requests
from .batch import batch_rule
from .claims import Claims, claims_for
from .commit import PartitionLedger
from .consume import Intake
from .decode import Decoder
from .dispatch import Dispatcher, Neighbours
from .events import heard
from .health import ModelHealth
from .inspection import Inspection
from .later import Later
from .learned import Learned
from .metrics import ModelMetrics
from .progress import ProgressWatch
from .publish import Destinations, Replier
from .reception import Reception
from .replicas import device_for
from .reply import Scribe
from .reply_index import ReplyIndex
from .runners.engine import Loaded, ModelSpec
from .settings import WorkerSettings
from .shared import Shared
from .storage import Storage
from .store_rule import store_rule
from .suspects import Suspects
from .taking import Taking
from .work import Outcome

MAX_LATER = 16_384  # requests that wait for their next attempt; each holds its offset open
LAST_COMMIT_S = 5.0
SAVE_S = 1.0  # a file system that hangs must not hold up the end
CAUGHT_UP_S = 5.0
_log = logging.getLogger("headrace.worker")


class ModelLoop:
    """Serves one model version. One event loop touches it."""

    def __init__(self, spec: ModelSpec, settings: WorkerSettings, shared: Shared) -> None:
        topics = Topics(settings.prefix)
        self._index = None
        if spec.dedupe is not None:
            self._index = ReplyIndex(shared.redis, topics.group(spec.name), spec.version, settings.reply_index_ttl_s)
        self.spec = spec
        self.loaded: Loaded | None = None
        self._settings = settings
        self._shared = shared
        self._topics = topics
        self._learned = Learned(spec, keep=settings.keep_run_times)
        self.device = device_for(spec, settings, self._device_changed, self._learned.observed, shared.lay_out)
        self._backlog = Backlog(settings.max_backlog_requests or usual_requests(1), settings.max_backlog_bytes,
                                spec.batching, self._learned.run_times, self.device.row_cap)  # fmt: skip
        self._later = Later(MAX_LATER)
        self._finished = asyncio.Event()  # offsets may be committed
        self._idle = asyncio.Event()  # nothing waits, runs or is unacknowledged
        self._scribe = Scribe(topics, spec.name, spec.version, settings.max_record_bytes, spec.dead_letter_codes,
                              store_rule(spec, shared.payloads, settings.max_record_bytes),
                              as_events=spec.profile is not None)  # fmt: skip
        self._settling = self._draining = False
        self._claims: Claims | None = None  # made with the decoder, where there is a payload store
        self._storage = None if (store := shared.payloads) is None else Storage(store, spec.name, spec.version)
        self.intake = Intake(
            shared.broker,
            topics,
            spec.name,
            settings.group_options(),
            settle=self._settle,
            lost=self._lost,
            changed=self._assigned,
            committed=shared.events.committed if shared.events else lambda offsets, asked_ms: None,
            watch=ProgressWatch(settings.progress_timeout_s),
            kafka_away=shared.kafka_away,
        )
        self.metrics = ModelMetrics(spec.name, backlog=lambda: len(self._backlog), lag=self.intake.lag,
                                    deaths=lambda: self.device.deaths, index=self._index)  # fmt: skip
        self.dispatcher = Dispatcher(spec.name, self._backlog, self._later, self.device, self._scribe, self.metrics,
                                      shared.cancels, self._learned, self._neighbours(),
                                      shared.shares.get(spec.device))  # fmt: skip
        self._replier = Replier(
            shared.producer,
            Destinations(shared.admin),
            self._scribe,
            self._published,
            lambda: self.dispatcher.running,
            index=self._index,
            behind=lambda: len(self._backlog),
            storage=self._storage,
        )
        self._inspection: Inspection  # made with the decoder, once the model is loaded, as are reception and taking
        self._tasks: list[asyncio.Task[None]] = []

    def _neighbours(self) -> Neighbours:
        return Neighbours(
            hand_over=lambda outcomes: self._replier.put(outcomes),
            crowded=lambda: self._replier.full or self._is_turn_of_another(),
            write_ahead=self.intake.committing.charge_next,
            postpone=lambda postponed: self._reception.postpone(postponed),
            started=self._shared.events.started if self._shared.events else lambda works: None,
            moved=self._moved,
        )

    def cancel_waiting(self) -> None:
        """Answer the requests that wait here, or whose inputs are fetched, and have been cancelled."""
        self.dispatcher.cancel_waiting()
        if self._claims is not None:
            self._claims.cancel_waiting(self._shared.cancels)

    async def start(self) -> None:
        """Load the model, then join its group and serve.

        Raises:
            LoadFailed, RunnerDied: the model cannot be loaded.
            BrokerError: the group cannot be joined.
        """
        self.loaded = loaded = await self.device.start()
        settings, rows = self._settings, loaded.max_batch_size
        self._fit(loaded, settings.max_backlog_requests or usual_requests(rows))
        self._backlog.rule = batch_rule(self.spec, rows, settings.max_batch_bytes)
        self._learned.begin(rows)
        if not await heard(self._shared.cancels.caught_up, CAUGHT_UP_S):
            _log.warning("Earlier cancels are not read yet: serving without them", extra={"action": "cancels_late"})
        await self.intake.start()
        steps = {"take": self.taking.run(), "dispatch": self.dispatcher.run(), "reply": self._replier.run()}
        steps["learn"] = self._learned.keep_on()
        steps["commit"] = self.intake.committing.keep_on(self._finished, settings.commit_interval_s)
        if self._index is not None:
            steps["index"] = self._index.run()
        self._tasks = [asyncio.create_task(step, name=f"{name} {self.spec.name}") for name, step in steps.items()]

    def _fit(self, loaded: Loaded, backlog_requests: int) -> None:
        """Make what depends on the loaded model."""
        settings, rows = self._settings, loaded.max_batch_size
        decoder = Decoder(self._topics, self.spec, loaded, clock_skew_allowance_s=settings.clock_skew_allowance_s,
                          cancels=self._shared.cancels, payloads=self._shared.payloads)  # fmt: skip
        self._backlog.max_requests = backlog_requests
        self.intake.suspect_cap = backlog_requests + self.device.slots * rows
        hand_over = self._replier.put
        self._reception = Reception(self.spec, self._topics, decoder, self._scribe, self._backlog, self._later,
                                    self._index, hand_over)  # fmt: skip
        self._claims = claims_for(self._shared, self.spec.name, decoder, self._scribe, self._backlog, self._reception,
                                  hand_over, self._moved)  # fmt: skip
        suspects = Suspects(rows, settings.attempt_limit)
        self._inspection = Inspection(self.spec.name, self.intake, suspects, self._reception, decoder, self._scribe,
                                      settings.attempt_limit, hand_over, self._is_busy, self._runs,
                                      self._shared.turn)  # fmt: skip
        self.taking = Taking(self.intake, self._inspection, self._reception, self._backlog, self._later,
                             held_up=self._is_held_up, may_not_inspect=self._is_turn_of_another, wake=self._wake,
                             due=self._finished.set, claims=self._claims)  # fmt: skip
        self._shared.turn.join(self.spec.name, self._is_busy, self._moved)
        self.metrics.watch(self._reception, self._inspection, self._later, self.device.lessons)
        self.metrics.watch_store(self._claims, self._storage)

    @property
    def serving(self) -> bool:
        """Loaded and a member of its group."""
        return bool(self._tasks)

    def health(self) -> ModelHealth:
        device, polled_at = self.device, self.taking.polled_at if self._tasks else None
        ready, assigned = device.state is ModelState.READY, self.intake.assignments > 0
        standby = assigned and not self.intake.ledgers
        return ModelHealth(self.spec.name, ready, device.reason, assigned, polled_at, standby, self.intake.stuck)

    def standing(self) -> tuple[ModelState, str]:
        """What others are told of the model."""
        return standing(self.device.state, self.device.reason, self._shared.quiet.is_set(), self.intake.assignments > 0)

    def _device_changed(self) -> None:
        self.dispatcher.wake.set()
        self._shared.changed.set()

    def _assigned(self) -> None:
        self._inspection.begin()
        if self.intake.assignments == 1:  # only the first changes what others are told
            self._shared.changed.set()

    async def failed(self) -> BaseException:
        """Wait until one of the tasks dies; why it did."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        return next((err for task in done if (err := task.exception())), RuntimeError("a task of the loop ended"))

    def _is_held_up(self) -> bool:
        """Whether nothing may be taken, whatever room there is."""
        return self._replier.full or self._inspection.waits or self._shared.quiet.is_set() or self._is_turn_of_another()

    def _is_turn_of_another(self) -> bool:
        return self._shared.turn.is_of_another(self.spec.name)

    def _wake(self, intake_paused: bool) -> None:
        self.dispatcher.intake_paused = intake_paused
        self.dispatcher.wake.set()

    def _is_busy(self) -> bool:
        return self._runs() or len(self._claims or ()) > 0

    def _runs(self) -> bool:
        return len(self._backlog) > 0 or self.dispatcher.running > 0

    def _moved(self) -> None:
        if self._claims is not None:
            self._claims.note_room()
        self.taking.room.set()
        self.taking.reopen()
        self.dispatcher.wake.set()
        if self._settling or self._draining:
            self._note_idle()

    def _published(self, outcomes: Sequence[Outcome]) -> None:
        """Called when outcomes are acknowledged and their offsets finished."""
        self.metrics.count(outcomes, now := time.monotonic())
        self._learned.answered(outcomes, now)
        self._finished.set()
        self._moved()

    def _note_idle(self) -> None:
        # What is fetched while partitions leave is for those that stay.
        busy = self._runs() if self._settling else self._is_busy()
        if busy or self._replier.unacknowledged:
            self._idle.clear()
        else:
            self._idle.set()

    async def _settle(self, leaving: Sequence[PartitionLedger]) -> None:
        """Partitions are going: forget what has not started, finish what has, within the drain budget."""
        self._settling = True
        try:
            self._lost(leaving)
            if leaving and not await heard(self._idle, self._settings.drain_timeout_s):
                _log.warning("%s: others will run it again", self.blockers(), extra={"action": "settle_timeout"})
                self._lost(leaving)
        finally:
            self._settling = False
            self._note_idle()

    def _lost(self, ledgers: Sequence[PartitionLedger]) -> None:
        for waiting in (self._backlog, self._later, self._inspection, self._claims):
            if waiting is not None:
                waiting.drop(ledgers)
        self._moved()

    async def drain(self, timeout_s: float) -> bool:
        """Stop taking, finish everything taken, commit; False when the time ran out first."""
        if not self._tasks:
            return True
        self._draining = True
        self.taking.stop()
        self._inspection.stop()
        self.dispatcher.wake.set()
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait([self._tasks[0]])
                self._note_idle()
                await self._idle.wait()
        except TimeoutError:
            pass  # what is finished is committed all the same
        committed = await self.intake.committing.for_the_last_time(LAST_COMMIT_S)
        await self._learned.save_within(SAVE_S)
        return committed and not self.blockers()

    async def stop(self, leave_timeout_s: float) -> None:
        """End everything at once; what is unfinished will be read again."""
        tasks = [*self._tasks, *self.dispatcher.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._claims is not None:
            await self._claims.stop()
        await self.intake.stop(leave_timeout_s)
        await self.device.stop(1.0)

    def blockers(self) -> str:
        """What is unfinished, as a sentence; empty when nothing is."""
        running, waiting, unsent = self.dispatcher.running, len(self._backlog), self._replier.unacknowledged
        what = f"{running} batches on the device, {waiting} requests waiting, {unsent} replies not acknowledged"
        if fetching := len(self._claims or ()):
            what += f", {fetching} requests whose stored inputs are fetched"
        return f"model {self.spec.name}: {what}" if running + waiting + unsent + fetching else ""
