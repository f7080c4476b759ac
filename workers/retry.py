"""What follows a failure. Pure: halving a failed batch, another attempt or none, what a runner's death means."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from producer_sdk.errors import Code, HeadraceError

from .runners.engine import RetryPolicy
from .work import Work

OF_SIZE = frozenset((Code.OUT_OF_MEMORY, Code.PAYLOAD_TOO_LARGE))
_DEVICE_WORDS = ("cuda error", "cuda failure", "cudaerror", "cuda_error", "cudnn", "cublas", "hip error", "hiperror")
_MOST_DOUBLINGS = 60


class Span(Struct, frozen=True):
    """Consecutive records of a batch, `last` not included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


class Failure(Struct, frozen=True):
    """A request that failed, not judged yet: it is answered with the error, or tried again."""

    work: Work
    error: HeadraceError


class Postponed(Struct, frozen=True):
    """A request to be tried again after a pause, and the error that it is answered with if that cannot be."""

    work: Work
    delay_s: float
    error: HeadraceError


class Again(Struct, frozen=True):
    """Try it again after a pause."""

    delay_s: float


def is_transient(error: HeadraceError, policy: RetryPolicy) -> bool:
    """Whether the failure may pass by itself: its code says so, or the model did."""
    return error.retry_after_s is not None or error.code in policy.codes


def is_of_size(error: HeadraceError) -> bool:
    """Whether fewer records at a time may pass, so that none of them need be at fault."""
    return error.code in OF_SIZE


def after_failure(
    error: HeadraceError,
    attempts: int,
    policy: RetryPolicy,
    limit: int,
    now: float,
    expires: float | None,
    random: Callable[[], float],
) -> Again | None:
    """The rule for a request that failed with its runner alive; None: answer it with the error.

    Args:
        attempts: failed ones before this one.
        limit: of the worker, where the policy has none of its own.
        now, expires: monotonic seconds; an attempt that could only begin after `expires` is not made.
        random: gives a number from 0 to 1; a pause is between a half and all of what the policy says, so that
            requests that failed together do not come back together.
    """
    if not is_transient(error, policy) or attempts + 1 >= (policy.limit or limit):
        return None
    pause_s = min(policy.longest_delay_s, policy.first_delay_s * 2.0 ** min(attempts, _MOST_DOUBLINGS))
    delay_s = max(pause_s * (0.5 + 0.5 * random()), error.retry_after_s or 0.0)
    return None if expires is not None and now + delay_s >= expires else Again(delay_s)


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
        return not self._failed_alone and (not len(self.set_aside) or code in OF_SIZE)

    @property
    def offender(self) -> int:
        """The record that is left."""
        return self._suspects.first

    @property
    def set_aside(self) -> Span:
        """Records not tested yet, all behind the offender; may be empty."""
        return Span(self._suspects.last, self._end)


class Trust(Struct):
    """Whether a runner still has its device. One runner's; all runs on it are noted, in order.

    An error that names the device may leave it lost to the process, and then every later run fails, whatever it holds.
    The texts that say so for certain end the runner by themselves; this notices the others.
    """

    doubted: bool = False  # the last run failed with an error that names the device

    def note(self, error: HeadraceError | None) -> bool:
        """Note how a run ended; whether it is the second in a row to fail so."""
        before, self.doubted = self.doubted, error is not None and names_device(error)
        return before and self.doubted


def names_device(error: HeadraceError) -> bool:
    """Whether an error of a run is one of the device's libraries, rather than the model's own."""
    message = error.message.lower() if error.code == Code.INFERENCE_FAILED else ""
    return any(word in message for word in _DEVICE_WORDS)


class AfterDeath(Enum):
    """What becomes of a request that was in flight when its runner died."""

    RUN_ALONE = "run alone"  # it may be innocent: one more try, by itself
    GIVE_UP = "give up"  # it has killed a runner too often


def after_death(attempts: int, limit: int, *, alone: bool) -> AfterDeath:
    """The rule for a request whose attempts, this one included, have so often failed.

    Only who was alone with the runner is guilty for certain: in company, even the last attempt gives nobody up.
    """
    return AfterDeath.GIVE_UP if alone and attempts >= limit else AfterDeath.RUN_ALONE


def restart_delay_s(deaths_in_a_row: int) -> float:
    """Seconds to wait before a runner is started again: at once, then 0.4 s, doubling up to 30 s."""
    return 0.0 if deaths_in_a_row <= 1 else min(30.0, 0.1 * 2.0 ** min(deaths_in_a_row, 10))
