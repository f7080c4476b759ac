"""One batch in a runner's slot: run as a whole, and where that fails in parts.

A batch that takes too much memory is halved, and nobody is to blame; any other is split until the record at fault is
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from producer_sdk.errors import HeadraceError

from .lessons import Lessons
from .reply import Scribe
from .retry import Again, Failure, Isolation, Span, Trust, is_of_size
from .runners.runner import Runner, RunnerDied
from .work import Batch, Outcome, Work

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
        any_passed: whether a run of some of them passed.
    """

    def __init__(
        self, runner: Runner, trust: Trust, slot: int, batch: Batch, scribe: Scribe, judge: Judge, lessons: Lessons
    ) -> None:
        self.batch = batch
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []
        self.offenders: list[Failure] = []
        self.running = Span(0, len(batch.works))
        self.run_s = 0.0
        self.any_passed = False
        self._runner = runner
        self._trust = trust
        self._slot = slot
        self._scribe = scribe
        self._judge = judge
        self._lessons = lessons
        self._began = 0.0
        self._doubtful: int | None = None  # the record blamed last, by an error of the device that nothing has followed
        self._device_failed_twice = False
        self._too_large_alone = 0  # records that do not fit by themselves

    def works(self, span: Span) -> tuple[Work, ...]:
        works = self.batch.works
        return works if len(span) == len(works) else works[span.first : span.last]

    async def run(self) -> None:
        """Run all of it.

        Raises:
            RunnerDied: as of `Runner.run`; `running` tells which records had been begun, if any had.
            DeviceLost: the records of `running` failed for the device alone.
        """
        self._began = time.monotonic()
        await self._run_all(self.running)

    async def _run_all(self, left: Span) -> None:
        while len(left):
            left = await self._run_span(left)

    async def _run_span(self, span: Span) -> Span:
        """Run these records; when they fail together, find one offender. Gives the records still to run."""
        if len(part := self._within_cap(span)) < len(span):
            await self._run_all(part)
            return Span(part.last, span.last)
        error = await self._attempt(span)
        done = Span(span.last, span.last)
        if error is None:
            return done
        if self._device_failed_twice:  # once with other records, now with these
            raise self._lost(span, error)
        if is_of_size(error) and len(span) > 1:
            await self._halve(span)
            return done
        if len(span) > 1 and self._passes_by_itself(span, error):
            return done
        return await self._isolate(span, error)

    def _within_cap(self, span: Span) -> Span:
        """As many of the first records as fit; a batch may have been put together before that was known."""
        if not len(self._lessons.caps):
            return span
        works, rows = self.works(span), 0
        cap = self._lessons.caps.rows(works[0].bucket)
        for place, work in enumerate(works):
            rows += work.rows
            if place and rows > cap:
                return Span(span.first, span.first + place)
        return span

    async def _halve(self, span: Span) -> None:
        """Too much at once. The limit is learned only if each record fits: one that asks for too much moves none."""
        half, before = span.first + len(span) // 2, self._too_large_alone
        await self._run_all(Span(span.first, half))
        await self._run_all(Span(half, span.last))
        if self._too_large_alone == before:
            self._lessons.too_many(self.works(span), time.monotonic())

    async def _isolate(self, span: Span, error: HeadraceError) -> Span:
        """Find one offender; gives the records that are still to run."""
        isolation = Isolation(span)
        while (part := isolation.next_run()) is not None:
            part_error = await self._attempt(part)
            isolation.ran(part, failed=part_error is not None)
            error = part_error or error
        offender = isolation.offender
        proof = await self._attempt(Span(offender, offender + 1)) if isolation.must_prove(error.code) else error
        if proof is not None:
            self._blame(offender, proof)
        return isolation.set_aside

    async def _attempt(self, part: Span) -> HeadraceError | None:
        """The error of the run as a whole; outcomes and failures of its records are noted."""
        self.running = part
        answer = await self._runner.run(self._slot, part.first, part.last)
        self.run_s += answer.run_s
        self._device_failed_twice = self._trust.note(answer.error)
        if answer.error is None:
            now = time.monotonic()
            self._doubtful = None
            self.any_passed = True
            works = self.works(part)
            self._lessons.passed(self.batch if works is self.batch.works else Batch.of(works), answer.run_s, now)
            outcomes, failures = self._scribe.answered(self.batch, part, answer, self._began, now)
            self.outcomes += outcomes
            self.failures += failures
        else:
            self._lessons.failed(answer.error)
        return answer.error

    def _passes_by_itself(self, span: Span, error: HeadraceError) -> bool:
        """Whether all may simply run again later: no record is at fault, so that there is nobody to look for."""
        failures = [Failure(work, error) for work in self.works(span)]
        if not all(map(self._judge, failures)):
            return False
        self.failures += failures
        return True

    def _blame(self, offender: int, error: HeadraceError) -> None:
        failure = Failure(self.batch.works[offender], error)
        self.failures.append(failure)
        self._too_large_alone += is_of_size(error)
        if len(self.batch.works) > 1:
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
