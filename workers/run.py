"""One batch on one device: an outcome for each record, whatever the model or its process does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection

from msgspec import Struct

from producer_sdk.announcements import ModelState
from producer_sdk.dead_letters import is_redriven
from producer_sdk.errors import HeadraceError, RunnerCrashed

from .keeper import RunnerKeeper
from .lessons import Lessons
from .placed import DeviceLost, PlacedBatch
from .quarantine import Quarantine
from .reply import Scribe
from .retry import OF_SIZE, AfterDeath, Again, Failure, Postponed, Span, after_death, after_failure, is_transient
from .runners.engine import Loaded, RetryPolicy
from .runners.runner import Runner, RunnerDied
from .work import Batch, Outcome, Work

USUAL_POLICY = RetryPolicy()


class Ran(Struct, frozen=True):
    """What a batch came to.

    Attributes:
        outcomes: of the requests that ended.
        again: requests that must run again at once; one that may be what killed a runner is `alone`.
        later: requests that must run again after a pause.
        run_s: the seconds that the model took.
    """

    outcomes: list[Outcome]
    again: tuple[Work, ...] = ()
    later: tuple[Postponed, ...] = ()
    run_s: float = 0.0


class Device:
    """Runs batches on a runner that is kept alive. One event loop touches it; `run` overlaps on different slots.

    Attributes:
        slots: how many batches may be given to `run` at a time.
        runners: how many of them run at a time; slot k is one of runner k modulo `runners`.
        lessons: what its runs have taught; its model's other devices may share them.
    """

    def __init__(
        self,
        make_runner: Callable[[], Runner],
        attempt_limit: int,
        model: str,
        changed: Callable[[], None],
        *,
        policy: RetryPolicy = USUAL_POLICY,
        lessons: Lessons | None = None,
        circuit_limit: int = 5,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._attempt_limit = attempt_limit
        self._policy = policy
        self._random = random
        self._keeper = RunnerKeeper(make_runner, model, changed, circuit_limit)
        self.slots = self._keeper.runner.slots
        self.runners = 1
        self.lessons = lessons or Lessons()

    @property
    def ready(self) -> bool:
        """Whether a batch can be run now; also True for the one that is tried while `state` is UNAVAILABLE."""
        return self._keeper.ready

    @property
    def state(self) -> ModelState:
        """What others are told."""
        return self._keeper.state

    @property
    def reason(self) -> str:
        """Why it is not READY."""
        return self._keeper.reason

    @property
    def deaths(self) -> int:
        """How often its runner has died."""
        return self._keeper.deaths

    @property
    def quarantine(self) -> Quarantine:
        """Inputs that are answered with the error of their last run."""
        return self.lessons.quarantine

    @property
    def busy_runners(self) -> int:
        """Runners that have a batch."""
        return int(self._keeper.in_flight > 0)

    def row_cap(self, bucket: object) -> int:
        """Most rows that a batch of this bucket should have, for more did not fit into memory."""
        return self.lessons.caps.rows(bucket)

    def free_slot(self, taken: Collection[int]) -> int | None:
        """The slot for the next batch, where `taken` are in use; None while no batch can be run."""
        if not self._keeper.ready:
            return None
        return next((slot for slot in range(self.slots) if slot not in taken), None)

    def idle(self, taken: Collection[int]) -> bool:
        """Whether the next batch would begin at once."""
        return not taken and self._keeper.ready

    async def start(self) -> Loaded:
        """Load the model.

        Raises:
            LoadFailed, RunnerDied: it cannot be loaded; the device stays unavailable.
        """
        return await self._keeper.start()

    def start_soon(self) -> None:
        """Load the model while others go on; if that fails, it is tried again."""
        self._keeper.start_soon()

    async def stop(self, timeout_s: float) -> None:
        await self._keeper.stop(timeout_s)

    async def run(self, slot: int, batch: Batch, scribe: Scribe) -> Ran:
        """Run a batch; never raises for a fault of the model or its process."""
        if not self.ready:  # it died since the batch was taken
            return Ran([], batch.works)
        known: list[Outcome] = []
        if self.quarantine:
            batch, known = self._without_known(batch, scribe)
        if not batch.works:
            return Ran(known)
        try:
            padded = self._keeper.runner.place(slot, batch)
        except HeadraceError as err:
            ran = await self._run_halves(slot, batch, scribe, err)
        else:
            if padded is not None:
                self.lessons.padded(padded.elements, padded.padding)
            ran = await self._run_placed(slot, batch, scribe)
        ran.outcomes.extend(known)
        return ran

    def _without_known(self, batch: Batch, scribe: Scribe) -> tuple[Batch, list[Outcome]]:
        """The batch without requests that are known to fail, and what those are answered."""
        now = time.monotonic()
        works: list[Work] = []
        known: list[Outcome] = []
        for work in batch.works:
            error = None if is_redriven(work.record.headers) else self.quarantine.known(work.request, work.nbytes, now)
            if error is None:
                works.append(work)
            else:
                known.append(scribe.failed(work, error))
        return (Batch.of(works), known) if known else (batch, known)

    async def _run_halves(self, slot: int, batch: Batch, scribe: Scribe, error: HeadraceError) -> Ran:
        """The inputs do not fit into the slot's memory together: run half of the records, then the others."""
        works = batch.works
        self.lessons.failed(error)
        if len(works) == 1:
            return Ran([scribe.failed(works[0], error)])
        half = len(works) // 2
        first, second = [await self.run(slot, Batch.of(part), scribe) for part in (works[:half], works[half:])]
        outcomes, again = first.outcomes + second.outcomes, first.again + second.again
        if not again and not any(outcome.code in OF_SIZE for outcome in outcomes):
            self.lessons.too_many(works, time.monotonic())
        return Ran(outcomes, again, first.later + second.later, first.run_s + second.run_s)

    async def _run_placed(self, slot: int, batch: Batch, scribe: Scribe) -> Ran:
        runner, trust = self._keeper.runner, self._keeper.trust
        placed = PlacedBatch(runner, trust, slot, batch, scribe, self._judge, self.lessons)
        self._keeper.in_flight += 1
        try:
            await placed.run()
        except RunnerDied as death:
            self._keeper.died(runner, str(death), known=batch.works[0].alone)
            if death.started and death.killed:
                self.lessons.killed(placed.works(placed.running), time.monotonic())
            outcomes, again = self._after_death(placed, death, scribe)
        else:
            outcomes, again = [], ()
            if not trust.doubted:
                self._keeper.worked()
        finally:
            self._keeper.in_flight -= 1
        later = self._settle(placed, outcomes, scribe)
        return Ran(placed.outcomes + outcomes, again, later, placed.run_s)

    def _after_death(
        self, placed: PlacedBatch, death: RunnerDied, scribe: Scribe
    ) -> tuple[list[Outcome], tuple[Work, ...]]:
        """Outcomes of those that are given up, and who runs again."""
        done = {id(outcome.source) for outcome in placed.outcomes}
        done.update(id(failure.work.source) for failure in placed.failures)
        suspects = placed.running if death.started or isinstance(death, DeviceLost) else Span(0, 0)
        given_up: list[Outcome] = []
        again: list[Work] = []
        for place, work in enumerate(placed.batch.works):
            if id(work.source) in done:
                continue
            if suspects.first <= place < suspects.last:
                work.alone = True
                work.attempts += death.started
                work.deaths += death.started
                if death.started and self._is_given_up(work, suspects):
                    given_up.append(self._give_up(work, death, scribe))
                    continue
            again.append(work)
        return given_up, tuple(again)

    def _is_given_up(self, work: Work, suspects: Span) -> bool:
        verdict = after_death(work.deaths, self._attempt_limit, alone=len(suspects) == 1)
        return verdict is AfterDeath.GIVE_UP

    def _give_up(self, work: Work, death: RunnerDied, scribe: Scribe) -> Outcome:
        attempts = f"{work.deaths} attempts" if work.deaths > 1 else "1 attempt"
        error = RunnerCrashed(f"given up after {attempts}, for the runner died with this request in flight: {death}")
        self.quarantine.add(work.request, work.nbytes, error, time.monotonic())
        return scribe.failed(work, error)

    def _judge(self, failure: Failure) -> Again | None:
        work, now = failure.work, time.monotonic()
        return after_failure(
            failure.error, work.attempts, self._policy, self._attempt_limit, now, work.expires, self._random
        )

    def _settle(self, placed: PlacedBatch, outcomes: list[Outcome], scribe: Scribe) -> tuple[Postponed, ...]:
        """Judge what failed: answered (into `outcomes`), or later."""
        later: list[Postponed] = []
        for failure in placed.failures:
            work, error = failure.work, failure.error
            again = self._judge(failure)
            work.attempts += is_transient(error, self._policy)
            if again is None:
                outcomes.append(scribe.failed(work, error))
                self._remember(failure, placed)
            else:
                later.append(Postponed(work, again.delay_s, error))
        return tuple(later)

    def _remember(self, failure: Failure, placed: PlacedBatch) -> None:
        """Quarantine an offender, if its batch mates passed and its error says that it would fail again."""
        if placed.any_passed and not failure.error.retryable and any(each is failure for each in placed.offenders):
            work = failure.work
            self.quarantine.add(work.request, work.nbytes, failure.error, time.monotonic())
