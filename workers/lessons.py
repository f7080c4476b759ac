"""What the runs of one model have taught the worker: inputs that fail, rows that fit, seconds that they take. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from producer_sdk.errors import Code, HeadraceError

from .quarantine import Quarantine
from .row_caps import DEADLY_QUIET_S, MAX_BUCKETS, RowCaps
from .work import Batch, Work

Observed = Callable[[object, int, float, float], None]


class Lessons:
    """All runners of a model share one, so that what fails on one is not tried on the next. One event loop touches it.

    Attributes:
        quarantine: inputs that are answered with the error of their last run.
        caps: rows that fit into memory, by bucket.
        ooms: runs that failed for memory.
        elements, padding: of padded inputs, all their elements, and those that were padding.
    """

    def __init__(self, *, quarantine_s: float = 0.0, observed: Observed | None = None) -> None:
        """`observed` is told bucket, rows, cost and seconds of each run that passed."""
        self.quarantine = Quarantine(quarantine_s)
        self.caps = RowCaps()
        self.ooms = 0
        self.elements = self.padding = 0
        self._observed = observed
        self._most_rows: dict[object, int] = {}  # that have passed, by bucket
        self._chance_at = -math.inf

    def passed(self, batch: Batch, run_s: float, now: float) -> None:
        """These ran together."""
        bucket, rows = batch.works[0].bucket, batch.rows
        if rows > self._most_rows.get(bucket, 0):
            if len(self._most_rows) >= MAX_BUCKETS:
                self._most_rows.clear()
            self._most_rows[bucket] = rows
        if len(self.caps):
            self.caps.passed(bucket, rows, now)
        if self._observed is not None:
            self._observed(bucket, rows, batch.cost, run_s)

    def padded(self, elements: int, padding: int) -> None:
        """A batch had padded inputs."""
        self.elements += elements
        self.padding += padding

    def failed(self, error: HeadraceError) -> None:
        """A run failed as a whole."""
        self.ooms += error.code == Code.OUT_OF_MEMORY

    def too_many(self, works: Sequence[Work], now: float) -> None:
        """These do not fit together, and each part of them did."""
        self.caps.failed(works[0].bucket, sum([work.rows for work in works]), now)

    def killed(self, works: Sequence[Work], now: float) -> None:
        """The runner was killed while it ran these: by the kernel, most likely, for the memory that they took."""
        self.ooms += 1
        if len(works) < 2:
            return
        bucket, rows = works[0].bucket, sum([work.rows for work in works])
        if 2 * rows <= self._most_rows.get(bucket, 0) and now - self._chance_at > DEADLY_QUIET_S:
            self._chance_at = now  # far more have fitted: once in a while that is somebody else's doing
        else:
            self.caps.failed(bucket, rows, now, deadly=True)
