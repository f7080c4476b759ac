"""What follows a failure. Pure: halving a failed batch, and what a runner's death means for a request."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from producer_sdk.errors import Code

_OF_SIZE = frozenset((Code.OUT_OF_MEMORY, Code.PAYLOAD_TOO_LARGE))


class Span(Struct, frozen=True):
    """Consecutive records of a batch, `last` not included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


class Isolation:
    """Finds the record that fails a batch, one run at a time.

    One half of the suspects is tested a level; the half behind a failing one is set aside untested, and all that was
    set aside runs together at the end. One offender among n records costs log2(n) tests and one run of the rest.
    Several offenders are found one after another, since a failing rest is isolated in the same way.

    A batch can also fail only as a whole (memory runs out): then each part passes, and the last suspect is innocent.
    """

    def __init__(self, failed: Span) -> None:
        self._suspects = failed
        self._end = failed.last
        self._failed_alone = len(failed) == 1

    def next_run(self) -> Span | None:
        """The records to run next; None when the suspect is alone."""
        first, last = self._suspects.first, self._suspects.last
        return Span(first, first + (last - first) // 2) if last - first > 1 else None

    def ran(self, span: Span, *, failed: bool) -> None:
        """Note how a run that `next_run` gave ended."""
        self._suspects = span if failed else Span(span.last, self._suspects.last)
        self._failed_alone = failed and len(span) == 1

    def must_prove(self, code: str) -> bool:
        """Whether the offender, found because all others passed, has to fail by itself before it is blamed.

        Always where the records passed in each part that was run, and for errors that depend on a batch's size.
        """
        return not self._failed_alone and (not len(self.set_aside) or code in _OF_SIZE)

    @property
    def offender(self) -> int:
        """The record that is left."""
        return self._suspects.first

    @property
    def set_aside(self) -> Span:
        """Records not tested yet, all behind the offender; may be empty."""
        return Span(self._suspects.last, self._end)


class AfterDeath(Enum):
    """What becomes of a request that was in flight when its runner died."""

    RUN_ALONE = "run alone"  # it may be innocent: one more try, by itself
    GIVE_UP = "give up"  # it has killed a runner too often


def after_death(deaths: int, limit: int) -> AfterDeath:
    """The rule for a request that has now been in flight at `deaths` deaths of a runner."""
    return AfterDeath.GIVE_UP if deaths >= limit else AfterDeath.RUN_ALONE


def restart_delay_s(deaths_in_a_row: int) -> float:
    """Seconds to wait before a runner is started again: at once, then 0.4 s, doubling up to 30 s."""
    return 0.0 if deaths_in_a_row <= 1 else min(30.0, 0.1 * 2.0 ** min(deaths_in_a_row, 10))
