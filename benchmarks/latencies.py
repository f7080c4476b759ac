"""What a load came to: a time for each request, and what follows from them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

Times = NDArray[np.float64]


class TooSlow(ValueError):
    """A load of so few requests that no figure can be had from it; says how many."""


class Load(Struct, frozen=True):
    """One load, by request, in seconds.

    Attributes:
        due_s: when it was to be sent, from the load's second 0; before that is warm-up.
        late_s: how much later it was sent.
        latency_s: from due to answered; infinite for those not answered.
        errors: error replies.
        cpu_share: CPU time of the generator, of one core.
    """

    due_s: Times
    late_s: Times
    latency_s: Times
    errors: int
    cpu_share: float

    @staticmethod
    def of(
        due: Sequence[float],
        sent: Sequence[float],
        done: Sequence[float | None],
        zero: float,
        errors: int,
        cpu_share: float,
    ) -> Load:
        """From moments of one clock; None is one not answered."""
        at = np.array(due)
        answered = np.array([np.inf if moment is None else moment for moment in done])
        return Load(at - zero, np.array(sent) - at, answered - at, errors, cpu_share)

    def after(self, warm_up_s: float) -> Load:
        """The same with second 0 so much later."""
        return replace(self, due_s=self.due_s - warm_up_s)


class Summary(Struct, frozen=True):
    """A load in a few figures. A miss is a request answered later than the limit, with an error, or not at all.

    `late_p99_ms` is how late the generator sent; where it nears `p50_ms`, the generator is what was measured.
    """

    per_s: float
    offered_per_s: float
    requests: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    misses: float
    errors: int
    late_p99_ms: float
    cpu_share: float


class Point(Struct, frozen=True):
    """One load of one system; `share` is of the system's maximum, None is that maximum itself.

    `busy` is the share of the time in which a runner ran batches, None where the system does not tell.
    """

    system: str
    share: float | None
    summary: Summary
    busy: float | None


def summary(load: Load, seconds: float, limit_s: float = float("inf")) -> Summary:
    """Of the requests due in the load's seconds 0 to `seconds`; `per_s` counts the answers of that time.

    Raises TooSlow when none was due.
    """
    inside = (load.due_s >= 0) & (load.due_s < seconds)
    done_s = load.due_s + load.latency_s
    answered = int(((done_s >= 0) & (done_s < seconds)).sum())
    latency_s, count = load.latency_s[inside], int(inside.sum())
    if count == 0:
        raise TooSlow(f"too slow to measure: {answered} requests in {seconds:g} s")
    # "higher" never makes a number out of a finite one and an infinite one.
    p50, p99, p999 = np.quantile(latency_s, (0.5, 0.99, 0.999), method="higher") * 1000
    return Summary(
        answered / seconds,
        count / seconds,
        count,
        float(p50),
        float(p99),
        float(p999),
        min(1.0, (int((latency_s > limit_s).sum()) + load.errors) / count),
        load.errors,
        float(np.quantile(load.late_s[inside], 0.99) * 1000),
        load.cpu_share,
    )


def poisson(per_s: float, seconds: float, seed: int) -> Times:
    """When requests are due, independent of one another, from second 0 to `seconds`; at a rate of 0 none."""
    if per_s <= 0:
        return np.empty(0)
    random = np.random.default_rng(seed)
    gaps = random.exponential(1 / per_s, int(per_s * seconds + 6 * (per_s * seconds) ** 0.5) + 16)
    moments: Times = np.cumsum(gaps)
    return moments[moments < seconds]
