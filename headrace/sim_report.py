"""What a simulation came to, in numbers: latencies, deadlines kept, the device's use. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from headrace.sim_engine import End, Fate, Run, Simulated


class Share(Struct, frozen=True):
    """The requests of a lane, of a tenant, or all.

    Attributes:
        requests: how many there were.
        p50_ms, p99_ms: from publication to the reply, of those that ran; None where none did.
        in_time: share of them that were answered within their deadline, from 0 to 1.
        late: ran, but were answered behind their deadline.
        expired: not run, since their deadline passed while they waited.
        refused: not run, since they could not have made their deadline, or as many of their tenant waited as may.
        waiting: never run.
    """

    requests: int
    p50_ms: float | None
    p99_ms: float | None
    in_time: float
    late: int
    expired: int
    refused: int
    waiting: int

    @property
    def missed(self) -> int:
        """Requests without an answer in time."""
        return self.late + self.expired + self.refused + self.waiting


class Summary(Struct, frozen=True):
    """One simulation.

    Attributes:
        all: every request.
        lanes, tenants: by name, where there is more than one.
        batches: how many ran.
        mean_rows: of a batch.
        rows_per_s: rows that ran, over the time from the first arrival to the last reply.
        useful_rows_per_s: of those, rows that were answered in time.
        busy: share of that time during which a runner ran, mean over the runners.
    """

    all: Share
    lanes: dict[str, Share]
    tenants: dict[str, Share]
    batches: int
    mean_rows: float
    rows_per_s: float
    useful_rows_per_s: float
    busy: float


def summarize(simulated: Simulated) -> Summary:
    """The numbers of a simulation."""
    fates, runs = simulated.fates, simulated.runs
    rows = sum(run.rows for run in runs)
    seconds = _seconds(fates)
    useful = sum(fate.arrival.rows for fate in fates if fate.in_time)
    return Summary(
        share(fates),
        _shares(fates, lambda fate: str(fate.arrival.lane)),
        _shares(fates, lambda fate: fate.arrival.tenant or "-"),
        len(runs),
        rows / len(runs) if runs else 0.0,
        rows / seconds,
        useful / seconds,
        _busy(runs, simulated.replicas, seconds),
    )


def share(fates: Sequence[Fate]) -> Share:
    """The numbers of some requests."""
    latencies = sorted(fate.latency_s for fate in fates if fate.end is End.ANSWERED)
    ends = [fate.end for fate in fates]
    in_time = sum(fate.in_time for fate in fates)
    return Share(
        len(fates),
        percentile_ms(latencies, 0.50),
        percentile_ms(latencies, 0.99),
        in_time / len(fates) if fates else 1.0,
        ends.count(End.ANSWERED) - in_time,
        ends.count(End.EXPIRED),
        ends.count(End.REFUSED),
        ends.count(End.WAITING),
    )


def percentile_ms(ordered: Sequence[float], quantile: float) -> float | None:
    """Of ascending seconds, the value that this share does not exceed, in milliseconds; None of nothing."""
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)] * 1000 if ordered else None


def _shares(fates: Sequence[Fate], name: Callable[[Fate], str]) -> dict[str, Share]:
    groups: dict[str, list[Fate]] = {}
    for fate in fates:
        groups.setdefault(name(fate), []).append(fate)
    return {each: share(groups[each]) for each in sorted(groups)} if len(groups) > 1 else {}


def _seconds(fates: Iterable[Fate]) -> float:
    """From the first arrival to the last reply; never 0."""
    answered = [fate for fate in fates if fate.end is not End.WAITING]
    begin = min((fate.arrival.at_s for fate in answered), default=0.0)
    end = max((fate.arrival.at_s + fate.latency_s for fate in answered), default=0.0)
    return max(end - begin, 1e-9)


def _busy(runs: Iterable[Run], replicas: int, seconds: float) -> float:
    return sum(run.run_s for run in runs) / (replicas * seconds)
