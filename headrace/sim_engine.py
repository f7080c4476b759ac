"""A worker in virtual time: its own backlog and batch rule, between made arrivals and runners that only take time.

What is left out is what takes no decisions: Kafka, decoding, memory and replies are constant delays (`Delays`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from heapq import heappop, heappush
from random import Random
from typing import cast

from msgspec import Struct

from headrace.sim_ports import Governed, Observer, Scheduler
from headrace.sim_times import RunTime
from headrace.sim_trace import Arrival
from producer_sdk.broker import Record, TopicPartition
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.batch import NOTHING_KNOWN, RunTimesLike
from workers.commit import PartitionLedger
from workers.occupancy import DEPTH, LATE_S
from workers.quotas import Quotas
from workers.runners.handle import SLOTS
from workers.work import Batch, Source, Work

USUAL = 0.5  # the quantile of run times by which runners are expected to be free, about what the worker's mean is
TICK_S = 1e-6  # the least step of the clock, where a rule asks to be asked again at once


class Delays(Struct, frozen=True):
    """What a request and a batch take outside the device, in seconds.

    Attributes:
        intake_s: from publication until the request waits in the backlog.
        start_s: from the close of a batch until an idle runner has begun it; behind another it is hidden.
        reply_s: from the end of a run until its callers have their replies.
        reply_more_s: samples of what a run's replies may take beyond that; one is drawn for each run.
        allowance_s: how much later the worker takes a deadline to pass (`clock_skew_allowance_s`).
    """

    intake_s: float = 0.002
    start_s: float = 0.0005
    reply_s: float = 0.002
    reply_more_s: tuple[float, ...] = ()
    allowance_s: float = 0.0


class End(StrEnum):
    """How a simulated request ended."""

    ANSWERED = "answered"  # it ran; whether in time is another question
    EXPIRED = "expired"  # its deadline passed while it waited
    REFUSED = "refused"  # told so before: it could not have made its deadline, or too many of its tenant waited
    WAITING = "waiting"  # it never ran: the rule left it behind


class Fate(Struct, frozen=True, gc=False):
    """What became of one arrival.

    Attributes:
        latency_s: from publication to the reply, of whatever kind.
        in_time: answered within its deadline; without one, answered.
    """

    arrival: Arrival
    end: End
    latency_s: float
    in_time: bool


class Run(Struct, frozen=True, gc=False):
    """One batch that ran."""

    began: float
    run_s: float
    rows: int
    requests: int


class Simulated(Struct, frozen=True):
    """What came of a trace: a fate for each arrival, in their order, and the batches in order of their ends."""

    fates: tuple[Fate, ...]
    runs: tuple[Run, ...]
    replicas: int


class _Runner:
    """One batch runs, others wait behind it."""

    __slots__ = ("began", "expected", "free_at")

    def __init__(self) -> None:
        self.began = -math.inf  # its run of now
        self.expected: deque[float] = deque()  # seconds that each batch it holds is expected to take
        self.free_at = -math.inf  # when it really has ended what it holds

    @property
    def held(self) -> int:
        return len(self.expected)

    def expected_free_at(self, now: float) -> float:
        """When it will have ended what it holds, as the worker has to guess."""
        if not self.expected:
            return now
        first, *behind = self.expected
        return max(now, self.began + first) + sum(behind)

    def is_late(self, now: float) -> bool:
        """Whether its batch runs clearly longer than expected."""
        return self.held > 0 and self.began + self.expected[0] + LATE_S < now


class Simulation:
    """One worker with `replicas` runners. Use it once.

    `observer` is told of each run as it ends, and `run_times` is asked when runners will be free, as the worker does.
    `quotas` count what waits in `scheduler`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        run_time: RunTime,
        *,
        run_times: RunTimesLike = NOTHING_KNOWN,
        observer: Observer | None = None,
        governed: Governed | None = None,
        quotas: Quotas | None = None,
        replicas: int = 1,
        delays: Delays = Delays(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        self._scheduler = scheduler
        self._run_time = run_time
        self._run_times = run_times
        self._observer = observer
        self._governed = governed
        self._quotas = quotas
        self._delays = delays
        self._random = Random(seed)
        self._runners = [_Runner() for _ in range(replicas)]
        self._ends: list[tuple[float, int, _Runner, Batch, Run]] = []
        self._log: dict[Lane, deque[Work]] = {lane: deque() for lane in Lane}
        self._paused: set[Lane] = set()
        self._fates: list[Fate | None] = []
        self._arrivals: Sequence[Arrival] = ()
        self._runs: list[Run] = []
        self._ledger = PartitionLedger(TopicPartition("simulated", 0))

    def run(self, arrivals: Sequence[Arrival]) -> Simulated:
        """Live through the arrivals, which must be in order of time, and until the last is answered."""
        self._arrivals = arrivals
        self._fates = [None] * len(arrivals)
        number, now = 0, 0.0
        while True:
            wakes = self._decide(now)
            comes = arrivals[number].at_s + self._delays.intake_s if number < len(arrivals) else math.inf
            ends = self._ends[0][0] if self._ends else math.inf
            then = min(comes, ends, wakes)
            if then == math.inf:
                break
            now = max(then, now + TICK_S if then == wakes else now)
            while number < len(arrivals) and arrivals[number].at_s + self._delays.intake_s <= now:
                self._publish(number)
                number += 1
            while self._ends and self._ends[0][0] <= now:
                self._end_run()
        fates = [fate or Fate(arrivals[at], End.WAITING, math.inf, False) for at, fate in enumerate(self._fates)]
        return Simulated(tuple(fates), tuple(self._runs), len(self._runners))

    def _publish(self, number: int) -> None:
        arrival = self._arrivals[number]
        expires = None
        if arrival.deadline_s is not None:
            expires = arrival.at_s + arrival.deadline_s + self._delays.allowance_s
        allowance_s = self._delays.allowance_s
        self._log[arrival.lane].append(_work(arrival, Source(self._ledger, number), expires, allowance_s))

    def _decide(self, now: float) -> float:
        """What the worker does at this moment: intake, refusals, batches. When it wants to be asked again."""
        scheduler = self._scheduler
        while True:
            self._take_in(now)
            if now >= scheduler.next_change and self._give_up(now):
                continue  # there is room again
            if self._governed is not None:
                governor = self._governed.governor
                self._governed.bound(governor.max_rows(now), governor.wait_s(now))
            due = self._due(now)
            if due > now:
                return min(due, scheduler.next_change)
            self._start(now)

    def _give_up(self, now: float) -> bool:
        """End the requests that cannot be answered in time; whether there were any."""
        expired = self._scheduler.take_expired(now)
        refused = self._scheduler.take_hopeless(now, self._free_at(now))
        self._finish(expired, End.EXPIRED, now)
        self._finish(refused, End.REFUSED, now)
        return bool(expired or refused)

    def _take_in(self, now: float) -> None:
        """From the log into the backlog; a lane that was full waits until it is half empty."""
        for lane, waiting in self._log.items():
            if lane in self._paused and self._scheduler.half_empty(lane):
                self._paused.discard(lane)
            while waiting and lane not in self._paused:
                if not self._scheduler.room(lane):
                    self._paused.add(lane)
                    break
                work = waiting.popleft()
                work.arrived = now
                if self._quotas is not None and self._quotas.admit([work])[1]:
                    self._finish([work], End.REFUSED, now)
                else:
                    self._scheduler.add(work)

    def _free_at(self, now: float) -> float:
        return min(runner.expected_free_at(now) for runner in self._runners)

    def _due(self, now: float) -> float:
        if not len(self._scheduler) or all(runner.held >= SLOTS for runner in self._runners):
            return math.inf
        idle = any(not runner.held for runner in self._runners)
        deep = sum(runner.held for runner in self._runners) >= DEPTH * len(self._runners)
        if deep and any(runner.is_late(now) for runner in self._runners):
            return math.inf
        paused, free_at = bool(self._paused), self._free_at(now)
        return self._scheduler.close_at(now, idle=idle, intake_paused=paused, free_at=free_at, deep=deep)

    def _start(self, now: float) -> None:
        runner = min(self._runners, key=lambda each: (each.held, each.expected_free_at(now)))
        batch = self._scheduler.take(now, runner.expected_free_at(now))
        works = batch.works
        cost = sum(work.cost for work in works)
        if self._governed is not None:
            self._governed.governor.took(batch.rows, len(self._scheduler), now, cost)
        asked = (works[0].bucket, batch.rows, cost)
        run_s = self._run_time.draw_s(*asked, self._random)
        begins = max(now + self._delays.start_s, runner.free_at)
        if not runner.held:
            runner.began = begins
        runner.expected.append(self._run_times.predict_s(*asked, USUAL))
        runner.free_at = begins + run_s
        run = Run(begins, run_s, batch.rows, len(works))
        heappush(self._ends, (runner.free_at, len(self._runs) + len(self._ends), runner, batch, run))

    def _end_run(self) -> None:
        at, _, runner, batch, run = heappop(self._ends)
        runner.expected.popleft()
        runner.began = at
        self._runs.append(run)
        if self._observer is not None:
            cost = sum(work.cost for work in batch.works)
            self._observer.observe(batch.works[0].bucket, batch.rows, cost, run.run_s)
        more = self._delays.reply_more_s
        self._finish(batch.works, End.ANSWERED, at + (self._random.choice(more) if more else 0.0))
        if self._governed is not None:
            for work in batch.works:
                if work.lane is not Lane.BULK:
                    self._governed.governor.observe(at - work.arrived, at)

    def _finish(self, works: Sequence[Work], end: End, now: float) -> None:
        for work in works:
            arrival = self._arrivals[work.source.offset]
            latency_s = now + self._delays.reply_s - arrival.at_s
            is_in_time = arrival.deadline_s is None or latency_s <= arrival.deadline_s
            in_time = end is End.ANSWERED and is_in_time
            self._fates[work.source.offset] = Fate(arrival, end, latency_s, in_time)


def _work(arrival: Arrival, source: Source, expires: float | None, allowance_s: float) -> Work:
    return Work(
        Request(str(source.offset), {}, tenant=arrival.tenant),
        source,
        cast(Record, None),  # nothing is retried or dead-lettered here
        arrival.lane,
        arrival.rows,
        arrival.nbytes,
        arrival.bucket,
        arrival.at_s,
        expires,
        cost=arrival.cost,
        priority=arrival.priority,
        allowance_s=allowance_s,
    )
