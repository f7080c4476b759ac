"""How many rows a batch may have before memory runs out, learned by bucket. Pure."""

from __future__ import annotations

import sys

from msgspec import Struct

UNKNOWN = sys.maxsize  # of a bucket that has never run out of memory
QUIET_S = 10.0
DEADLY_QUIET_S = 600.0  # a try that ends the runner costs a load of the model, and everybody waits for it
LONGEST_QUIET_S = 3600.0
MAX_BUCKETS = 1024
_PRECISION = 16  # the search ends when it is off by no more than a sixteenth


class _Learned(Struct):
    """What is known of one bucket.

    Attributes:
        cap: most rows a batch may have now.
        good: most rows that are believed to fit.
        bad: fewest rows that did not fit, above `good`; UNKNOWN once that has been refuted.
        most: most rows that ever failed; if they pass the bucket is forgotten.
        quiet_s: how long the cap stays before a larger one is tried.
        since: monotonic seconds of the last change.
    """

    cap: int
    good: int
    bad: int
    most: int
    quiet_s: float
    since: float

    def next_try(self) -> int:
        """The next larger cap: the middle of what is unknown, or, once that is small, what failed before."""
        if self.bad == UNKNOWN:
            return min(self.most, 2 * self.good)
        if self.bad - self.good <= max(1, self.good // _PRECISION):
            return self.bad  # whoever used up the memory may have left
        return (self.good + self.bad) // 2


class RowCaps:
    """A cap goes down to what fits as soon as a batch fails, and up again by probes, seldom enough to cost nothing.

    A probe is one step of a bisection between what fits and what failed, at the earliest `quiet_s` after the last
    change, and only while batches are about as large as the cap allows. The pause doubles with each failed probe, up
    to `LONGEST_QUIET_S`, and halves with each that passes; so a bucket fails a few times until it is found out, and
    then about once an hour.
    """

    def __init__(self, quiet_s: float = QUIET_S, max_buckets: int = MAX_BUCKETS) -> None:
        self._quiet_s = quiet_s
        self._max_buckets = max_buckets
        self._learned: dict[object, _Learned] = {}  # who failed last is at the end

    def __len__(self) -> int:
        """How many buckets have a cap."""
        return len(self._learned)

    def rows(self, bucket: object) -> int:
        """Most rows a batch of this bucket may have."""
        learned = self._learned.get(bucket) if self._learned else None
        return UNKNOWN if learned is None else learned.cap

    def failed(self, bucket: object, rows: int, now: float, *, deadly: bool = False) -> None:
        """So many rows did not fit, and no record among them is at fault; `deadly` if that ended the runner."""
        quiet_s = max(self._quiet_s, DEADLY_QUIET_S) if deadly else self._quiet_s
        known = self._learned.pop(bucket, None)
        if known is None:
            if len(self._learned) >= self._max_buckets:
                del self._learned[next(iter(self._learned))]
            half, most = max(1, rows // 2), max(2, rows)
            self._learned[bucket] = _Learned(half, half, most, most, quiet_s, now)
            return
        self._learned[bucket] = known
        known.most = max(known.most, rows)
        if rows > known.cap:  # a batch that was put together before the cap came down
            known.bad = min(known.bad, rows)
            return
        if rows <= known.good:  # less fits than before
            known.good = max(1, rows // 2)
        known.bad = max(known.good + 1, rows)
        known.cap = known.good
        known.quiet_s = min(LONGEST_QUIET_S, max(quiet_s, 2.0 * known.quiet_s))
        known.since = now

    def passed(self, bucket: object, rows: int, now: float) -> None:
        """So many rows fitted."""
        if not self._learned:
            return
        known = self._learned.get(bucket)
        if known is None or 2 * rows <= known.cap:
            return
        if rows > known.good:
            known.good = rows
            known.cap = max(known.cap, rows)
            if known.cap - rows <= max(1, rows // _PRECISION):  # as large as it was to be
                known.quiet_s = max(self._quiet_s, known.quiet_s / 2.0)
                known.since = now
        if known.good >= known.bad:
            known.bad = UNKNOWN
        if known.good >= known.most:
            del self._learned[bucket]
        elif now - known.since >= known.quiet_s:
            known.cap = max(known.cap, known.next_try())
            known.since = now
