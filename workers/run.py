"""One batch on one device: an outcome for each record, whatever the model or its process does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec import Struct

from producer_sdk.announcements import ModelState
from producer_sdk.errors import HeadraceError, RunnerCrashed

from .reply import Scribe
from .retry import AfterDeath, Isolation, Span, after_death, restart_delay_s
from .runners.engine import Loaded, LoadFailed
from .runners.runner import Runner, RunnerDied
from .work import Answer, Batch, Outcome, Work

PATIENCE_S = 10.0  # a restart that takes longer is told to others
_log = logging.getLogger("headrace.worker")


class Ran(Struct, frozen=True):
    """What a batch came to: outcomes, requests that must run again, and the seconds that the model took."""

    outcomes: list[Outcome]
    again: tuple[Work, ...] = ()
    run_s: float = 0.0


class _Progress(Struct):
    """How far a batch has come: what is answered, and which records the runner has now."""

    outcomes: list[Outcome]
    running: Span
    run_s: float = 0.0


class Device:
    """Keeps a runner alive and runs batches on it. One event loop touches it; `run` overlaps on different slots.

    `state` is what others are told: it stays READY through a quick restart, for requests wait meanwhile.
    """

    def __init__(
        self, make_runner: Callable[[], Runner], attempt_limit: int, model: str, changed: Callable[[], None]
    ) -> None:
        self._make_runner = make_runner
        self._attempt_limit = attempt_limit
        self._model = model
        self._changed = changed
        self._runner = make_runner()
        self._deaths_in_a_row = 0
        self.deaths = 0
        self._restarting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._stopped = False
        self.ready = False  # whether a batch can be run now
        self.slots = self._runner.slots
        self.state = ModelState.LOADING
        self.reason = ""
        self.run_s = 0.0  # smoothed seconds a batch takes, for the batch rule

    async def start(self) -> Loaded:
        """Load the model.

        Raises:
            LoadFailed, RunnerDied: it cannot be loaded; the device stays unavailable.
        """
        try:
            loaded = await self._runner.start()
        except (LoadFailed, RunnerDied) as err:
            self.state, self.reason = ModelState.UNAVAILABLE, str(err)
            await self._runner.stop(0.0)
            raise
        self._now_ready()
        return loaded

    async def run(self, slot: int, batch: Batch, scribe: Scribe) -> Ran:
        """Run a batch; never raises for a fault of the model or its process."""
        if not self.ready:  # it died since the batch was taken
            return Ran([], batch.works)
        try:
            self._runner.place(slot, batch)
        except HeadraceError as err:
            return await self._run_halves(slot, batch, scribe, err)
        self._in_flight += 1
        try:
            return await self._run_placed(self._runner, slot, batch, scribe)
        finally:
            self._in_flight -= 1

    async def _run_placed(self, runner: Runner, slot: int, batch: Batch, scribe: Scribe) -> Ran:
        started = time.monotonic()
        progress = _Progress([], Span(0, len(batch.works)))
        left = progress.running
        try:
            while len(left):
                left = await self._run_span(runner, slot, batch, left, scribe, started, progress)
        except RunnerDied as death:
            # A request that runs alone is known to be what kills the runner: no reason for others to wait longer.
            self._restart(runner, str(death), known=batch.works[0].deaths > 0)
            return self._after_death(batch, death, scribe, progress)
        self._deaths_in_a_row = 0
        return Ran(progress.outcomes, (), progress.run_s)

    async def _run_halves(self, slot: int, batch: Batch, scribe: Scribe, error: HeadraceError) -> Ran:
        """The inputs do not fit into the slot's memory together: run half of the records, then the others."""
        works = batch.works
        if len(works) == 1:
            return Ran([scribe.failed(works[0], error)])
        half = len(works) // 2
        parts = [Batch(part, sum(work.rows for work in part)) for part in (works[:half], works[half:])]
        first, second = [await self.run(slot, part, scribe) for part in parts]
        return Ran(first.outcomes + second.outcomes, first.again + second.again, first.run_s + second.run_s)

    async def stop(self, timeout_s: float) -> None:
        self._stopped = True
        self.ready = False
        self.state, self.reason = ModelState.UNAVAILABLE, "the worker is stopping"
        for task in (self._restarting, self._watching):
            if task is not None:
                task.cancel()
        await self._runner.stop(timeout_s)

    async def _run_span(
        self, runner: Runner, slot: int, batch: Batch, span: Span, scribe: Scribe, started: float, progress: _Progress
    ) -> Span:
        """Run these records; when they fail together, find one offender. Gives the records still to run."""

        async def attempt(part: Span) -> HeadraceError | None:
            progress.running = part
            answer = await runner.run(slot, part.first, part.last)
            progress.run_s += answer.run_s
            if answer.error is None:
                self._note(answer)
                progress.outcomes += scribe.answered(batch, part, answer, started, time.monotonic())
            return answer.error

        error = await attempt(span)
        if error is None:
            return Span(span.last, span.last)
        isolation = Isolation(span)
        while (part := isolation.next_run()) is not None:
            part_error = await attempt(part)
            isolation.ran(part, failed=part_error is not None)
            error = part_error or error
        offender = isolation.offender
        proof = await attempt(Span(offender, offender + 1)) if isolation.must_prove(error.code) else error
        if proof is not None:
            progress.outcomes.append(scribe.failed(batch.works[offender], proof))
        return isolation.set_aside

    def _after_death(self, batch: Batch, death: RunnerDied, scribe: Scribe, progress: _Progress) -> Ran:
        answered = {id(outcome.source) for outcome in progress.outcomes}
        suspects = progress.running if death.started else Span(0, 0)
        again: list[Work] = []
        for place, work in enumerate(batch.works):
            if id(work.source) in answered:
                continue
            suspect = suspects.first <= place < suspects.last
            work.deaths += suspect
            if suspect and after_death(work.deaths, self._attempt_limit) is AfterDeath.GIVE_UP:
                error = RunnerCrashed(f"the runner died {work.deaths} times with this request in flight: {death}")
                progress.outcomes.append(scribe.failed(work, error))
            else:
                again.append(work)
        return Ran(progress.outcomes, tuple(again), progress.run_s)

    def _note(self, answer: Answer) -> None:
        self.run_s = answer.run_s if self.run_s == 0.0 else 0.8 * self.run_s + 0.2 * answer.run_s

    def _restart(self, dead: Runner, reason: str, *, known: bool = False) -> None:
        """Start another runner, once for each death, however many batches saw it."""
        restarting = self._restarting is not None and not self._restarting.done()
        if dead is not self._runner or restarting or self._stopped:
            return
        self.ready = False
        self.deaths += 1
        self._deaths_in_a_row += not known
        _log.error("The runner of model %s died: %s", self._model, reason, extra={"action": "runner_died"})
        self._restarting = asyncio.create_task(self._start_another(dead, reason), name=f"restart {self._model}")

    async def _start_another(self, dead: Runner, reason: str) -> None:
        began = time.monotonic()
        overdue = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell, ModelState.LOADING, reason)
        try:
            await dead.stop(0.0)
            while not await self._started_another():
                pass  # it has waited before
        finally:
            overdue.cancel()
        _log.info("Model %s is back after %.1f s", self._model, time.monotonic() - began,
                  extra={"action": "runner_back"})  # fmt: skip
        self._now_ready()

    async def _started_another(self) -> bool:
        await asyncio.sleep(restart_delay_s(self._deaths_in_a_row))
        try:
            self._runner = self._make_runner()
            await self._runner.start()
        except Exception as err:  # noqa: BLE001 - the top of a task, without which the model would never come back
            self._deaths_in_a_row += 1
            self._tell(ModelState.UNAVAILABLE, str(err))
            _log.error("Model %s cannot be loaded: %s", self._model, err, extra={"action": "load_failed"})
            await self._runner.stop(0.0)
            return False
        return True

    async def _watch(self, runner: Runner) -> None:
        """Notice a runner that dies while it has nothing to do, before a request has to wait for its successor."""
        reason = await runner.died()
        if not self._in_flight:  # else the run tells, and knows whose fault it is
            self._restart(runner, reason)

    def _now_ready(self) -> None:
        self.ready = True
        self._watching = asyncio.create_task(self._watch(self._runner), name=f"watch {self._model}")
        self._tell(ModelState.READY, "")

    def _tell(self, state: ModelState, reason: str) -> None:
        self.state, self.reason = state, reason
        self._changed()
