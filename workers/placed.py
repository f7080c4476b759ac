"""One batch in a runner's slot: run as a whole, and where that fails split until the record at fault is alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from producer_sdk.errors import HeadraceError

from .reply import Scribe
from .retry import Again, Failure, Isolation, Span, Trust
from .runners.runner import Runner, RunnerDied
from .work import Batch, Outcome

Judge = Callable[[Failure], Again | None]


class DeviceLost(RunnerDied):
    """The runner lives, but nothing that it runs succeeds any more: it has to be replaced."""


class PlacedBatch:
    """Runs a batch once; what is known of it then, also after a death, are its attributes. One task uses it.

    Attributes:
        outcomes: of the records that passed.
        failures: of the records that did not, not judged yet.
        offenders: those of them that were found by splitting.
        running: the records that the runner was given last.
        run_s: seconds that the model took.
        passed_s: of each run that passed.
    """

    def __init__(self, runner: Runner, trust: Trust, slot: int, batch: Batch, scribe: Scribe, judge: Judge) -> None:
        self.batch = batch
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []
        self.offenders: list[Failure] = []
        self.running = Span(0, len(batch.works))
        self.run_s = 0.0
        self.passed_s: list[float] = []
        self._runner = runner
        self._trust = trust
        self._slot = slot
        self._scribe = scribe
        self._judge = judge
        self._began = 0.0
        self._doubtful: int | None = None  # the record blamed last, by an error of the device that nothing has followed
        self._device_failed_twice = False

    async def run(self) -> None:
        """Run all of it.

        Raises:
            RunnerDied: as of `Runner.run`; `running` tells which records had been begun, if any had.
            DeviceLost: the records of `running` failed for the device alone.
        """
        self._began = time.monotonic()
        left = self.running
        while len(left):
            left = await self._run_span(left)

    async def _run_span(self, span: Span) -> Span:
        """Run these records; when they fail together, find one offender. Gives the records still to run."""
        error = await self._attempt(span)
        if error is None:
            return Span(span.last, span.last)
        if self._device_failed_twice:  # once with other records, now with these
            raise self._lost(span, error)
        if len(span) > 1 and self._passes_by_itself(span, error):
            return Span(span.last, span.last)
        isolation = Isolation(span)
        while (part := isolation.next_run()) is not None:
            part_error = await self._attempt(part)
            isolation.ran(part, failed=part_error is not None)
            error = part_error or error
        offender = isolation.offender
        proof = await self._attempt(Span(offender, offender + 1)) if isolation.must_prove(error.code) else error
        if proof is not None:
            self._blame(offender, proof, found_by_splitting=len(span) > 1)
        return isolation.set_aside

    async def _attempt(self, part: Span) -> HeadraceError | None:
        """The error of the run as a whole; outcomes and failures of its records are noted."""
        self.running = part
        answer = await self._runner.run(self._slot, part.first, part.last)
        self.run_s += answer.run_s
        self._device_failed_twice = self._trust.note(answer.error)
        if answer.error is None:
            self._doubtful = None
            self.passed_s.append(answer.run_s)
            outcomes, failures = self._scribe.answered(self.batch, part, answer, self._began, time.monotonic())
            self.outcomes += outcomes
            self.failures += failures
        return answer.error

    def _passes_by_itself(self, span: Span, error: HeadraceError) -> bool:
        """Whether all may simply run again later: no record is at fault, so that there is nobody to look for."""
        failures = [Failure(work, error) for work in self.batch.works[span.first : span.last]]
        if not all(map(self._judge, failures)):
            return False
        self.failures += failures
        return True

    def _blame(self, offender: int, error: HeadraceError, *, found_by_splitting: bool) -> None:
        failure = Failure(self.batch.works[offender], error)
        self.failures.append(failure)
        if found_by_splitting:
            self.offenders.append(failure)
        if self._trust.doubted:
            self._doubtful = offender

    def _lost(self, span: Span, error: HeadraceError) -> DeviceLost:
        """Whoever was blamed just before may be as innocent as these."""
        if self._doubtful is not None:
            span = Span(self._doubtful, span.last)
            taken_back = self.failures.pop()
            self.offenders = [each for each in self.offenders if each is not taken_back]
        self.running = span
        return DeviceLost(f"two runs of different records failed for the device: {error.message}", started=False)
