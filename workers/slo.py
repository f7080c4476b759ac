"""The most rows of a batch that keep latencies within the SLO, at the highest throughput. Pure.

Where run times are known, the size follows from them at once: the largest that runs within a share of the SLO, or a
smaller one where that passes more rows a second. What run times do not tell (batches wait for one another, replies are
on their way) is put right by the share: latencies beyond the SLO lower it by much, latencies near it by a little, and
latencies well below let it grow, but only while batches are full, for else its growth would show nowhere.
"""

from __future__ import annotations

import math

from msgspec import Struct

from .run_times import RunTimesLike, sizes_up_to
from .spread import Spread

QUANTILE = 0.99
AIM, BAND = 0.97, 0.04  # the observed quantile is to lie between 0.93 and 0.97 of the SLO
FIRST_SHARE = 0.4  # a request waits out the batch that runs before its own
_LEAST_SHARE, _MOST_SHARE = 0.02, 1.0
_MOST_DECREASE, _MOST_INCREASE = 0.7, 1.2
_ENOUGH = 100  # latencies since the last look
_LATE_AT_ONCE = 5  # so many of them beyond the SLO are acted on before there are enough
_SMALL, _KEPT = 0.1, 0.5  # after a change smaller than that, earlier latencies still weigh so much
_FULL, _OFTEN = 0.9, 0.5
# Predictions that rise so much, so many SLOs after the share was lowered, explain why answers were late, and already
# change the rows: then the share is what it was.
_SLOWED, _EXPLAIN_WITHIN = 1.25, 30.0
_NEAR_BEST = 0.97
_CARRY = 1.1  # sizes that pass fewer rows than come, by this margin, would only make a queue
_BATCH_S = 0.0003  # what a batch costs the worker itself
_BUSY_FROM, _BUSY_TO = 0.5, 0.9
_WAIT_SHARE = 0.25  # of the time that is left below the SLO
_LOOK_EVERY = 0.1  # of the SLO
_COST_MEMORY = 64  # batches that the usual cost of a row is averaged over
_LOW, _WIDTH, _BINS, _MEMORY = -3.0, 0.025, 160, 400.0  # logarithms of latency over SLO: from 1/20 to 2.7 times


class _Lowered(Struct, frozen=True, gc=False):
    """The share before it was lowered, when, and what the largest batch was then predicted to take."""

    share: float
    predicted_s: float
    at: float


class SloControl:
    """Of one model. One thread touches it; `now` is monotonic seconds.

    Latencies, and rows left waiting, are those of the requests that the SLO is meant for: where bulk fills the rest of
    their batches, its own are left out.
    """

    def __init__(self, slo_s: float, max_rows: int, run_times: RunTimesLike, cost_of_row: float = 1.0) -> None:
        self._slo_s = slo_s
        self._max_rows = max_rows
        self._run_times = run_times
        self._cost_of_row = cost_of_row
        self._seen_costs = 0
        self._sizes = sizes_up_to(max_rows)
        self.share = FIRST_SHARE
        self._latencies = Spread(_LOW, _WIDTH, _MEMORY, [0.0] * _BINS)
        self._deaf_until = -math.inf  # what was answered before the last change took effect says nothing of it
        self._lowered: _Lowered | None = None
        self._rate = _Rate()
        self._busy = _Rate()
        self._look_again(-math.inf)
        self._start_counting()

    def observe(self, latency_s: float, now: float, rows: int = 1) -> None:
        """A request that the SLO is meant for was answered, so long after it had come."""
        self._rate.add(rows, now)
        if now < self._deaf_until or not 0.0 <= latency_s < math.inf:
            return
        self._latencies.add(math.log(max(latency_s, 1e-9) / self._slo_s))
        self._seen += 1
        self._late += latency_s > self._slo_s
        if self._seen >= _ENOUGH or self._late >= _LATE_AT_ONCE:
            self._adjust(now)

    def took(self, rows: int, left_rows: int, now: float, cost: float = 0.0) -> None:
        """A batch of so many rows was taken, and so many that the SLO is meant for were left waiting.

        `cost` is what the model declares the batch to cost, which run times follow; 0 where that is not known.
        """
        if cost > 0.0:
            self._learn_cost(cost / rows)
        most = self.max_rows(now)
        self._batches += 1
        self._full += rows >= _FULL * most
        self._pressed += left_rows >= most
        self._busy.add(self._predict_s(rows) + _BATCH_S, now)

    def max_rows(self, now: float) -> int:
        """Most rows of the next batch."""
        if now >= self._look_at:
            self._look_again(now)
        return self._rows

    def wait_s(self, now: float) -> float:
        """How long the oldest may wait for company while the device is idle.

        Nothing while there is little to do. From half load on larger batches spare work, so a part of the time that is
        left below the SLO is spent on them, but no more than it takes to fill one.
        """
        if now >= self._look_at:
            self._look_again(now)
        return self._wait_s

    def _look_again(self, now: float) -> None:
        if self._lowered is not None:
            self._think_again(self._lowered, now)
        self._look_at = now + _LOOK_EVERY * self._slo_s
        self._rows = self._find_rows(now)
        self._wait_s = self._find_wait_s(now)

    def _find_rows(self, now: float) -> int:
        self._carries, self._held_back = False, True
        if self._predict_s(1) <= 0.0:
            # Nothing is known of run times: plain increase and decrease of the rows themselves.
            return max(1, math.floor(self._max_rows * self.share))
        pace = self._pace(self.share)
        enough = _NEAR_BEST * max(pace.values())
        best = min(rows for rows, per_s in pace.items() if per_s >= enough)
        self._held_back = pace[max(pace)] >= enough
        carrying = self._carrying(now)
        self._carries = carrying > best
        return max(best, carrying)

    def _carrying(self, now: float) -> int:
        """The least rows that carry what comes; where nothing does, those that pass most within the SLO."""
        wanted = _CARRY * self._rate.per_s(now)
        pace = self._pace(_MOST_SHARE)
        carrying = [rows for rows, per_s in pace.items() if per_s >= wanted]
        return min(carrying) if carrying else max(pace, key=pace.__getitem__)

    def _pace(self, share: float) -> dict[int, float]:
        """Rows a second by size, of sizes that run within a share of the SLO; of 1 where none does."""
        most = self._largest(share * self._slo_s)
        return {rows: rows / self._predict_s(rows) for rows in (*self._sizes, most) if rows <= most}

    def _largest(self, budget_s: float) -> int:
        """The most rows that run within the budget, 1 where none do; run times never fall with rows."""
        low, high = 1, self._max_rows
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._predict_s(middle) <= budget_s else (low, middle - 1)
        return low

    def _learn_cost(self, of_row: float) -> None:
        self._seen_costs = min(self._seen_costs + 1, _COST_MEMORY)
        self._cost_of_row += (of_row - self._cost_of_row) / self._seen_costs

    def _predict_s(self, rows: int) -> float:
        return self._run_times.predict_s(None, rows, rows * self._cost_of_row)

    def _find_wait_s(self, now: float) -> float:
        busy = (self._busy.per_s(now) - _BUSY_FROM) / (_BUSY_TO - _BUSY_FROM)
        rate = self._rate.per_s(now)
        if busy <= 0.0 or rate <= 0.0 or self._latencies.weight < 1.0:
            return 0.0
        spare_s = self._slo_s * (AIM - self._quantile())
        return max(0.0, min(min(busy, 1.0) * _WAIT_SHARE * spare_s, (self._rows - 1) / rate))

    def _quantile(self) -> float:
        """The observed quantile, over the SLO."""
        return math.exp(self._latencies.quantile(QUANTILE))

    def _adjust(self, now: float) -> None:
        """Look at what was seen since the last time, and change the share if that says so."""
        factor = self._factor(self._quantile())
        self._start_counting()
        share = max(_LEAST_SHARE, min(self.share * factor, _MOST_SHARE))
        if factor < 1.0 and self._lowered is None:
            self._lowered = _Lowered(self.share, self._predict_s(self._max_rows), now)
        if share != self.share:
            self._set_share(share, now, _KEPT if abs(factor - 1.0) < _SMALL else 0.0)

    def _set_share(self, share: float, now: float, kept: float) -> None:
        self.share = share
        self._latencies.scale(kept)
        self._deaf_until = now + self._slo_s
        self._look_at = now

    def _think_again(self, lowered: _Lowered, now: float) -> None:
        """Take a decrease back that a slower device explains, for run times have learned of it meanwhile."""
        if now > lowered.at + _EXPLAIN_WITHIN * self._slo_s:
            self._lowered = None
        elif self._predict_s(self._max_rows) > _SLOWED * lowered.predicted_s > 0.0:
            self._lowered = None
            self._set_share(lowered.share, now, 0.0)
            self._start_counting()

    def _factor(self, observed: float) -> float:
        """What the share is multiplied by, where the observed quantile is so much of the SLO."""
        if observed > AIM or self._late > (1.0 - QUANTILE) * max(self._seen, _ENOUGH):
            # While more waits than a batch can take, latencies come from the queue, which smaller batches lengthen.
            to_blame = self._full and self._pressed < _OFTEN * self._batches and not self._carries
            return max(_MOST_DECREASE, min(AIM / observed, 1.0 - BAND / 2.0)) if to_blame else 1.0
        is_tight = self._held_back and self._full > _OFTEN * self._batches
        if observed < AIM - BAND and (is_tight or self.share < FIRST_SHARE):
            return min(_MOST_INCREASE, math.sqrt(AIM / observed))
        return 1.0

    def _start_counting(self) -> None:
        self._seen = self._late = self._batches = self._full = self._pressed = 0


class _Rate:
    """How much comes a second, over the last second or so."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at = 0.0

    def add(self, amount: float, now: float) -> None:
        if now > self._at:
            self._sum *= math.exp(self._at - now)
            self._at = now
        self._sum += amount

    def per_s(self, now: float) -> float:
        return self._sum * math.exp(min(self._at - now, 0.0))
