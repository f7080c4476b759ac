"""What a worker learns of one model while it serves: run times, and from them the batch size that holds its SLO."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from producer_sdk.topics import Lane

from .backlog import Backlog
from .run_times import RunTimes
from .run_times_file import Place, RunTimesFile
from .runners.engine import ModelSpec
from .slo import SloControl
from .work import OK, Batch, Outcome

SAVE_S = 30.0


class Learned:
    """One event loop touches it.

    Attributes:
        run_times: how long batches run; what the last worker knew, at first.
        slo: the batch size that holds `slo_ms`; None where the model has none, or before `begin`.
    """

    def __init__(self, spec: ModelSpec, *, keep: bool) -> None:
        place = Place(spec.version, spec.device, spec.engine, spec.threads)
        self._file = RunTimesFile(spec.folder.parent, place) if keep else None
        self._slo_ms = spec.batching.slo_ms
        self._unsaved = 0
        self.run_times = self._file.load() if self._file else RunTimes()
        self.slo: SloControl | None = None

    def begin(self, max_rows: int) -> None:
        """The model is loaded; its batches have at most so many rows."""
        if self._slo_ms is not None:
            self.slo = SloControl(self._slo_ms / 1000, max_rows, self.run_times)

    def predict_s(self, batch: Batch) -> float:
        """Seconds that a batch will run; 0 while nothing is known."""
        return self.run_times.mean_s(batch.works[0].bucket, batch.rows, batch.cost)

    def bound(self, backlog: Backlog, now: float) -> None:
        """Bound the batches as the SLO wants it."""
        if self.slo is None:
            return
        rows, wait_s = self.slo.max_rows(now), self.slo.wait_s(now)
        if (rows, wait_s) != (backlog.rule.max_rows, backlog.rule.max_wait_s):
            backlog.rule = replace(backlog.rule, max_rows=rows, max_wait_s=wait_s)

    def observed(self, bucket: object, rows: int, cost: float, run_s: float) -> None:
        """A batch ran."""
        self._unsaved += 1
        self.run_times.observe(bucket, rows, cost, run_s)

    def took(self, batch: Batch, backlog: Backlog, now: float) -> None:
        """A batch was taken out of the backlog."""
        if self.slo is not None:
            self.slo.took(batch.rows, backlog.rows(Lane.INTERACTIVE, Lane.ASYNC), now, batch.cost)

    def answered(self, outcomes: Sequence[Outcome], now: float) -> None:
        """Outcomes were acknowledged; the SLO is meant for all but bulk."""
        if self.slo is not None:
            for outcome in outcomes:
                if outcome.code == OK and outcome.lane is not Lane.BULK:
                    self.slo.observe(now - outcome.arrived, now)

    async def keep_on(self) -> None:
        """Save what is new every half minute, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_S)
            await self.save()

    async def save_within(self, timeout_s: float) -> None:
        """Save what is new, if that does not take too long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.save()
        except TimeoutError:
            pass  # the next worker learns it anew

    async def save(self) -> None:
        """Write what is known beside the model, if there is anything new."""
        if self._file is not None and self._unsaved:
            self._unsaved = 0
            await asyncio.to_thread(self._file.save, self.run_times.to_state())
