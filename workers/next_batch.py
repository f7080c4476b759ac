"""Which requests make the next batch, and when it closes: lanes, buckets, tenants, deadlines. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from producer_sdk.topics import Lane

from .batch import NO_OUTLOOK, TO_ANSWER_S, BatchRule, Outlook, Waiting, close_at, is_full, rows_to_take
from .crowding import Crowding, most_s, rows_beside
from .deadlines import RunTime, rows_within
from .gather import fill_up, gather
from .headroom import BARELY_LONGER, NO_LESS, STRETCHED, Headroom
from .lanes import OTHERS_BETWEEN, Choice, LaneQueue, Standing, choose
from .line import Entry, Limits
from .nearest import take_smaller
from .pace import Pace
from .run_times import RunTimesLike
from .runners.policies import BatchPolicy
from .shares import Shares
from .work import Work

TO_ASSEMBLE_S = 0.002  # a batch for a busy device closes so early before it is free, and no earlier
SHORT_S = 0.005  # a batch lies ready behind one that does only where even slow runs take no longer
LIKELY = 0.8  # the quantile of run times that deadlines are reckoned with: found best by simulation


class NextBatch:
    """All lanes of one model. One event loop touches it; time is passed in.

    A batch is led by one lane, and in it by the bucket of its most urgent request; others of that bucket fill it up.

    Attributes:
        rule: the bounds of a batch.
        queues: what waits, by lane.
        alone_s: how long a single row of a bucket that lately got its first request runs; 0 while unknown.
    """

    def __init__(
        self, policy: BatchPolicy, run_times: RunTimesLike, row_cap: Callable[[object], int] | None = None
    ) -> None:
        self.rule = BatchRule(1, 1, 0.0)
        self.queues = {lane: LaneQueue(lane) for lane in Lane}
        self.alone_s = 0.0
        self._policy = policy
        self._ordered = policy.preserve_ordering
        self._slo_s = None if policy.slo_ms is None else policy.slo_ms / 1000
        self._run_times = run_times
        self._row_cap = row_cap
        self._in_rank = tuple(self.queues.values())
        self._shares: Shares[Lane] = Shares()
        self._since_aged = OTHERS_BETWEEN
        self._headroom = Headroom()
        self._crowding = Crowding()
        self._pace = Pace()
        self._rows_taken = 0

    def add_all(self, entries: list[Entry]) -> None:
        """Requests wait that share lane, bucket and tenant."""
        work = entries[0][2]
        tenant = None if self._ordered else work.request.tenant
        queue = self.queues[work.lane]
        lines = queue.buckets.get(work.bucket)
        line = None if lines is None else lines.get(tenant)
        if line is None:
            if not queue.buckets:
                self._shares.enter(work.lane)
            line = queue.open(entries[0], tenant)
            self.alone_s = self.run_time(work.bucket)(1, work.cost / work.rows)
        line.add_all(entries)
        queue.count += len(entries)

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out every request that `leaves` is true of."""
        gone: list[Work] = []
        for queue in self._waiting():
            gone += queue.take_out(leaves)
            if not queue.buckets:
                self._shares.leave(queue.lane)
        return gone

    def run_time(self, bucket: object) -> RunTime:
        """How long batches of a bucket are likely to run, by rows and cost."""
        predict = self._run_times.predict_s
        return lambda rows, cost: predict(bucket, rows, cost, LIKELY)

    def close_at(
        self, now: float, *, idle: bool, intake_paused: bool, free_at: float = -math.inf, deep: bool = False
    ) -> float:
        """When the batch closes, monotonic seconds; -infinite is now, infinite when something changes."""
        queues = self._waiting()
        if not queues:
            return math.inf
        if idle:
            return min([self._closes(queue, key, now, intake_paused) for queue in queues for key in queue.buckets])
        if self._ordered:  # of two batches at a time the second may end first
            return math.inf
        queue = self.queues[self._choose(queues, now).lane]
        bucket = self._bucket(queue, now)
        rule = self._rule_for(queue, bucket, now)
        full = is_full(rule, queue.about(bucket)) and self._may_lie_ready(queue, bucket, rule, now, deep)
        return free_at - TO_ASSEMBLE_S if full else math.inf

    def take(self, now: float, starts_at: float) -> list[Work]:
        """Take out the next batch, which the device starts at `starts_at`. Something must wait."""
        queues = self._waiting()
        choice = self._choose(queues, now)
        queue = self.queues[choice.lane]
        start = max(now, starts_at) + TO_ANSWER_S  # for deadlines, which are of answers, it starts so much later
        bucket = self._bucket(queue, now)
        rule = self._rule_for(queue, bucket, now)
        limits = Limits(rows_to_take(rule, queue.about(bucket).rows), rule.max_bytes, rule.max_cost)
        run_s = self.run_time(bucket)
        if self._ordered:
            works = queue.take_in_order(bucket, limits)
        else:
            works = gather(queue, bucket, limits, start, run_s, self._rows_per_s(now))
            if len(queue.buckets) > (bucket in queue.buckets):
                works += take_smaller(works, queue, bucket, limits, start, self.run_time)
        led = len(works)
        sums = _sums(works)
        self._rows_taken += sums[0]
        self._charge(queue, *sums)
        if len(queues) > 1 and not self._ordered:
            self._fill_up(works, queue.lane, bucket, limits, now, start)
        self._since_aged = 0 if choice.aged else self._since_aged + 1
        if queue.lane is Lane.INTERACTIVE:
            self._headroom.note(works[:led], run_s(*(sums if led == len(works) else _sums(works))), now)
            if len(queue.tenants) > 1:
                self._crowding.note(works[:led], run_s(1, works[0].cost / works[0].rows), now)
        return works

    def _fill_up(
        self, works: list[Work], leads: Lane, bucket: object, limits: Limits, now: float, start: float
    ) -> None:
        """Add requests of other lanes, higher ones first."""
        run_s = self.run_time(bucket)
        longest_s = math.inf
        if leads is Lane.INTERACTIVE:
            rows, cost = _sums(works)
            longest_s = max(BARELY_LONGER * run_s(rows, cost), STRETCHED * run_s(1, cost / rows))
            if self._slo_s is not None:
                longest_s = max(longest_s, (self._slo_s - now + min([work.arrived for work in works])) / 2)
        for other in self._in_rank:
            if other.lane is not leads and bucket in other.buckets:
                more = fill_up(works, other, bucket, limits, start, longest_s, run_s)
                self._charge(other, *_sums(more))
                works += more

    def _charge(self, queue: LaneQueue, rows: int, cost: float) -> None:
        if rows:
            self._shares.charge(queue.lane, (cost or rows) / self._policy.lanes[queue.lane].weight)
            if not queue.buckets:
                self._shares.leave(queue.lane)

    def _waiting(self) -> list[LaneQueue]:
        return [queue for queue in self._in_rank if queue.buckets]

    def _choose(self, queues: list[LaneQueue], now: float) -> Choice:
        if len(queues) == 1:
            return Choice(queues[0].lane)
        standings = [self._standing(queue, now) for queue in queues]
        return choose(standings, self._policy.lanes, now, self._since_aged >= OTHERS_BETWEEN)

    def _standing(self, queue: LaneQueue, now: float) -> Standing:
        bucket = queue.most_urgent(list(queue.buckets))
        waiting = queue.waiting(bucket)
        rows = min(waiting.rows, self._rule_for(queue, bucket, now).max_rows)
        run_s = self.run_time(bucket)(rows, rows * waiting.cost / waiting.rows)
        in_time = waiting.expires - TO_ANSWER_S
        if self._slo_s is not None:
            in_time = min(in_time, waiting.oldest + self._slo_s)
        return Standing(queue.lane, self._shares.clock(queue.lane), queue.oldest, in_time - run_s, run_s)

    def _bucket(self, queue: LaneQueue, now: float) -> object:
        """Of the buckets that are due the most urgent one: one that gathers does not hold up one that is full."""
        buckets = list(queue.buckets)
        if len(buckets) == 1:
            return buckets[0]
        due = [] if self._ordered else [key for key in buckets if self._closes(queue, key, now, False) <= now]
        return queue.most_urgent(due or buckets)

    def _closes(self, queue: LaneQueue, bucket: object, now: float, intake_paused: bool) -> float:
        """When a bucket's batch closes on an idle device."""
        rule = self._rule_for(queue, bucket, now)
        waiting = queue.about(bucket)
        outlook = NO_OUTLOOK
        if not is_full(rule, waiting):
            waiting = queue.waiting(bucket)
            outlook = self._outlook(bucket, waiting, now)
        return close_at(rule, waiting, idle=True, intake_paused=intake_paused, outlook=outlook)

    def _outlook(self, bucket: object, waiting: Waiting, now: float) -> Outlook:
        run_s = self._run_times.predict_s(bucket, waiting.rows, waiting.cost)
        if not run_s:
            return NO_OUTLOOK
        rows = waiting.rows + 1
        longer_s = self._run_times.predict_s(bucket, rows, waiting.cost * rows / waiting.rows) - run_s
        return Outlook(run_s, longer_s, self._rows_per_s(now))

    def _rows_per_s(self, now: float) -> float:
        return self._pace.per_s(now, self._rows_taken + sum([queue.rows for queue in self._in_rank]))

    def _rule_for(self, queue: LaneQueue, bucket: object, now: float) -> BatchRule:
        """The rule with what a bucket has room for, and what a lower lane may take of the interactive one's time."""
        rule = self.rule
        most_rows = rule.max_rows if self._row_cap is None else max(1, min(rule.max_rows, self._row_cap(bucket)))
        if queue.lane is Lane.INTERACTIVE:
            if self._crowding.is_watched(now):
                most_rows = self._uncrowded(queue, bucket, most_rows)
        elif self._is_watched(now):
            cost_of_row, run_s = queue.cost_of_row(bucket), self.run_time(bucket)
            longest_s = max(self._headroom.spare_s(self._slo_s), NO_LESS * run_s(1, cost_of_row))
            most_rows = max(1, rows_within(longest_s, most_rows, cost_of_row, run_s))
        return rule if most_rows == rule.max_rows else replace(rule, max_rows=most_rows)

    def _uncrowded(self, queue: LaneQueue, bucket: object, most_rows: int) -> int:
        """Most rows of an interactive batch, where one tenant may crowd the lane: turns say whose they are."""
        beside = rows_beside(queue.buckets[bucket], most_rows)
        if beside is None:
            return most_rows
        cost_of_row, run_s = queue.cost_of_row(bucket), self.run_time(bucket)
        beside_s = run_s(beside, beside * cost_of_row) if beside else 0.0
        longest_s = most_s(run_s(1, cost_of_row), beside_s, self._crowding.spare_s(self._slo_s))
        return min(most_rows, max(beside, 1, rows_within(longest_s, most_rows, cost_of_row, run_s)))

    def _is_watched(self, now: float) -> bool:
        return bool(self.queues[Lane.INTERACTIVE].buckets) or self._headroom.is_watched(now)

    def _may_lie_ready(self, queue: LaneQueue, bucket: object, rule: BatchRule, now: float, deep: bool) -> bool:
        """Whether a full batch may be fixed while another runs: an interactive request might have to wait for both."""
        if deep:
            slow_s = self._run_times.predict_s(bucket, rule.max_rows, rule.max_rows * queue.cost_of_row(bucket))
            if not 0.0 < slow_s <= SHORT_S:
                return False
        if queue.lane is Lane.INTERACTIVE:
            if not self._crowding.is_watched(now) or rows_beside(queue.buckets[bucket], rule.max_rows) is None:
                return True
            spare_s = self._crowding.spare_s(self._slo_s)
        elif self._is_watched(now):
            spare_s = self._headroom.spare_s(self._slo_s)
        else:
            return True
        if deep:
            return False
        takes_s = self.run_time(bucket)(rule.max_rows, rule.max_rows * queue.cost_of_row(bucket))
        return 2 * takes_s <= spare_s


def _sums(works: list[Work]) -> tuple[int, float]:
    return sum([work.rows for work in works]), sum([work.cost for work in works])
