"""What no sequence of calls can break: nothing lost or doubled, bounds, sums, no starvation."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from made_works import Takes, backlog_of, work

from producer_sdk.broker import TopicPartition
from producer_sdk.topics import Lane
from workers.batch import BatchRule
from workers.commit import PartitionLedger
from workers.runners.policies import BatchPolicy, Overdue, QueuePolicy
from workers.work import Batch, Work

LEDGERS = [PartitionLedger(TopicPartition("t", number)) for number in range(3)]
QUEUES = st.sampled_from([QueuePolicy(), *(QueuePolicy(2.0, what) for what in Overdue)])
POLICIES = st.one_of(
    st.builds(BatchPolicy, queue=QUEUES, priority_levels=st.just(2), default_priority=st.just(1)),
    st.builds(BatchPolicy, queue=QUEUES, slo_ms=st.sampled_from([None, 500.0])),
    st.just(BatchPolicy(preserve_ordering=True)),
)
RULES = st.builds(
    BatchRule, max_rows=st.integers(1, 8), max_bytes=st.integers(20, 200), max_wait_s=st.sampled_from([0.0, 0.5]),
    max_cost=st.sampled_from([math.inf, 9.0]), preferred_rows=st.sampled_from([(), (2, 4)]),
)  # fmt: skip
WORKS = st.fixed_dictionaries(
    {
        "lane": st.sampled_from(list(Lane)),
        "rows": st.integers(1, 4),
        "nbytes": st.integers(1, 60),
        "cost": st.floats(0.5, 8.0),
        "bucket": st.integers(0, 2),
        "tenant": st.sampled_from([None, "a", "b"]),
        "priority": st.integers(0, 2),
        "ledger": st.sampled_from(LEDGERS),
        "alone": st.sampled_from([False] * 9 + [True]),
    }
)


class Worker(RuleBasedStateMachine):
    """A backlog in use, beside a plain list of what must wait in it."""

    @initialize(policy=POLICIES, bounds=RULES, takes=st.sampled_from([Takes(0.0), Takes(0.1, 0.05)]))
    def start(self, policy: BatchPolicy, bounds: BatchRule, takes: Takes) -> None:
        self.backlog = backlog_of(max_requests=1000, policy=policy, run_times=takes)
        self.backlog.rule = bounds
        self.policy, self.takes = policy, takes
        self.waiting: dict[str, Work] = {}
        self.now, self.count = 1.0, 0

    @rule(kind=WORKS, lives_s=st.one_of(st.none(), st.floats(0.1, 20.0)))
    def add(self, kind: dict[str, Any], lives_s: float | None) -> None:
        self.count += 1
        expires = None if lives_s is None else self.now + lives_s
        each = work(str(self.count), arrived=self.now, expires=expires, offset=self.count, **kind)
        self.waiting[each.request.id] = each
        self.backlog.add(each)

    @rule(passes_s=st.floats(0.0, 3.0))
    def time_passes(self, passes_s: float) -> None:
        self.now += passes_s

    @rule(busy_s=st.floats(0.0, 1.0))
    def refuse(self, busy_s: float) -> None:
        gone = self.backlog.take_expired(self.now) + self.backlog.take_hopeless(self.now, self.now + busy_s)
        self._leave(gone)
        assert self.backlog.next_change > self.now
        assert not [each for each in self.waiting.values() if (each.expires or math.inf) <= self.now]

    @precondition(lambda self: self.waiting)
    @rule()
    def take(self) -> None:
        self.refuse(0.0)
        if self.waiting:
            batch = self.backlog.take(self.now)
            self._leave(batch.works)
            self._check(batch)

    def _check(self, batch: Batch) -> None:
        bounds, works = self.backlog.rule, batch.works
        assert batch.rows == sum(each.rows for each in works)
        assert all((each.expires or math.inf) > self.now for each in works)
        if len(works) > 1:
            assert not any(each.alone for each in works)
            assert len({each.bucket for each in works}) == 1
            assert batch.rows <= bounds.max_rows
            assert sum(each.nbytes for each in works) <= bounds.max_bytes
            assert sum(each.cost for each in works) <= bounds.max_cost + 1e-9
        if self.policy.preserve_ordering and not works[0].alone:
            for each in works:
                earlier = [one for one in self.waiting.values() if one.source.ledger is each.source.ledger]
                assert not [one for one in earlier if one.source.offset < each.source.offset
                            and one.lane is each.lane and not one.alone]  # fmt: skip

    @rule(ledger=st.sampled_from(LEDGERS))
    def drop(self, ledger: PartitionLedger) -> None:
        going = [id for id, each in self.waiting.items() if each.source.ledger is ledger]
        assert self.backlog.drop([ledger]) == len(going)
        for id in going:
            del self.waiting[id]

    @rule(tenant=st.sampled_from([None, "a", "b"]))
    def take_out(self, tenant: str | None) -> None:
        self._leave(self.backlog.take_out(lambda each: each.request.tenant == tenant))
        assert not [each for each in self.waiting.values() if each.request.tenant == tenant]

    def _leave(self, works: Any) -> None:
        for each in works:
            assert self.waiting.pop(each.request.id) is each

    @invariant()
    def the_sums_are_right(self) -> None:
        if not hasattr(self, "backlog"):
            return
        assert len(self.backlog) == len(self.waiting)
        assert self.backlog.nbytes == sum(each.nbytes for each in self.waiting.values())
        counts = Counter(each.lane for each in self.waiting.values())
        assert [self.backlog.room(lane) for lane in Lane if self.backlog.nbytes < 1000] in (
            [], [1000 - counts[lane] for lane in Lane])  # fmt: skip

    @invariant()
    def an_idle_device_waits_no_longer_than_the_bound(self) -> None:
        if hasattr(self, "backlog"):
            at = self.backlog.close_at(self.now, idle=True, intake_paused=False)
            oldest = min((each.arrived for each in self.waiting.values()), default=math.inf)
            assert at <= oldest + self.backlog.rule.max_wait_s


Worker.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestNothingIsLostDoubledOrOutOfBounds = Worker.TestCase
