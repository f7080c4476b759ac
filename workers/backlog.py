"""The bounded waiting room of one model, which gives the batches. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from producer_sdk.topics import Lane

from .batch import NOTHING_KNOWN, TO_ANSWER_S, BatchRule, RunTimesLike
from .line import Entry, runs_of
from .next_batch import NextBatch
from .queue_policy import has_timeouts, overdue_at, queue_of
from .runners.policies import BatchPolicy, Overdue
from .trials import Trials
from .waiting_room import WaitingRoom
from .work import Batch, Work

PATIENCE_S = 60.0  # a request without a deadline is ordered as if it had this one, so that it cannot starve
LEAST_USUAL = 512
USUAL_BATCHES = 4  # fills the next batch while one runs and one lies ready; more alive at once costs cache misses
_OWN_PART = 8  # a lane may always use one part in so many of the bytes, whatever the others use


def usual_requests(max_batch_size: int) -> int:
    """How many requests of a lane may wait where no setting says so."""
    return max(LEAST_USUAL, USUAL_BATCHES * max_batch_size)


class Backlog(WaitingRoom):
    """Requests that wait for a batch. One event loop touches it; time is passed in.

    Only requests of one bucket (same variable dimensions, same unbatched inputs) can share a batch. Lanes share the
    device by weight, tenants of a lane evenly, and the requests of one go by deadline. A request that was in flight
    when a runner died waits apart and runs alone, before the others; so does one that is overdue, where the model wants
    that.

    Whoever takes batches calls `take_expired` and `take_hopeless` first when `next_change` has come.

    Attributes:
        max_requests: most of one lane that may wait.
        max_bytes: most input bytes of all that wait.
        doubts_run_times: nothing has run lately, so that what was learned may be out of date: nobody is refused for it.
    """

    def __init__(
        self,
        max_requests: int,
        max_bytes: int,
        policy: BatchPolicy = BatchPolicy(),  # noqa: B008 (frozen)
        run_times: RunTimesLike = NOTHING_KNOWN,
        row_cap: Callable[[object], int] | None = None,
    ) -> None:
        super().__init__()
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self.doubts_run_times = False
        self._policy = policy
        self._ranked = has_timeouts(policy) or policy.priority_levels > 0 or policy.preserve_ordering
        self._next = NextBatch(policy, run_times, row_cap)
        self._lanes = tuple(self._next.queues.values())
        self._apart: deque[Work] = deque()
        self._sequence = count()
        self._next_overdue = math.inf
        self._last_hope = math.inf  # until then nobody is hopeless, as far as is known
        self._trials = Trials()

    @property
    def rule(self) -> BatchRule:
        """The bounds of a batch."""
        return self._next.rule

    @rule.setter
    def rule(self, rule: BatchRule) -> None:
        self._next.rule = rule

    def __len__(self) -> int:
        return len(self._apart) + sum([queue.count for queue in self._lanes])

    @property
    def nbytes(self) -> int:
        """Input bytes of all that wait."""
        return sum([work.nbytes for work in self._apart]) + sum([queue.nbytes for queue in self._lanes])

    def room(self, lane: Lane) -> int:
        """Requests of a lane that still fit; 0 when the bytes are used up."""
        part = self.max_bytes // _OWN_PART
        if self._next.queues[lane].nbytes >= part and self.nbytes >= self.max_bytes - 2 * part:
            return 0
        return max(0, self.max_requests - self._requests(lane))

    def half_empty(self, lane: Lane) -> bool:
        """Whether intake that was stopped may go on: one haul for many requests costs far less than one for each."""
        if self._requests(lane) > self.max_requests // 2:
            return False
        own = self._next.queues[lane].nbytes
        return own <= self.max_bytes // (2 * _OWN_PART) or self.nbytes <= self.max_bytes // 2

    def _requests(self, lane: Lane) -> int:
        apart = sum([work.lane is lane for work in self._apart]) if self._apart else 0
        return self._next.queues[lane].count + apart

    def waiting_of(self, lane: Lane, tenant: str | None) -> int:
        """Requests of one tenant that wait in a lane, those that run alone left out."""
        return self._next.queues[lane].waiting_of(tenant)

    def add(self, work: Work) -> None:
        """A request waits from now on."""
        self.add_all([work])

    def add_all(self, works: Sequence[Work], *, one_kind: bool = False) -> None:
        """Requests wait from now on: together those that have come from one client one after another.

        `one_kind` says that they are known to share lane, bucket and tenant, and that none runs alone.
        """
        for alike in (works,) if one_kind and works else runs_of(works):
            if alike[0].alone:
                self._apart += alike
            elif self._ranked:
                self._next_overdue = min(self._next_overdue, *map(self._overdue_at, alike))
                self._next.add_all([self._entry(work) for work in alike])
            else:
                urgencies = [_urgency(work) for work in alike]
                self._next.add_all(list(zip(urgencies, self._sequence, alike, strict=False)))
            expire = [work for work in alike if work.expires is not None]
            if expire:
                self.earliest_expiry = min(self.earliest_expiry, *[work.expires or 0.0 for work in expire])
                due = min([work.due for work in expire])
                self._last_hope = min(self._last_hope, due - self._next.alone_s - TO_ANSWER_S)

    def _entry(self, work: Work, behind: bool = False) -> Entry:
        """How it is ordered where deadlines are not all that counts."""
        if self._policy.preserve_ordering:
            return (work.arrived, (work.source.offset, next(self._sequence)), work)
        return ((behind, work.priority, _urgency(work)), next(self._sequence), work)

    def _overdue_at(self, work: Work) -> float:
        return overdue_at(queue_of(self._policy, work.priority), work)

    def close_at(
        self, now: float, *, idle: bool, intake_paused: bool, free_at: float = -math.inf, deep: bool = False
    ) -> float:
        """When the next batch closes, monotonic seconds; -infinite is now, infinite when something changes.

        Args:
            idle: the device has nothing to do.
            intake_paused: nothing more arrives, so that waiting for company cannot help.
            free_at: when a busy device is expected to be free. A full batch closes just in time to be assembled before,
                so that what arrives until then may still be in it; where that is not known, at once.
            deep: a batch lies ready already: a further one closes only where they are known to be short.
        """
        if self._apart:
            return -math.inf if idle or not (deep or self._policy.preserve_ordering) else math.inf
        return self._next.close_at(now, idle=idle, intake_paused=intake_paused, free_at=free_at, deep=deep)

    def take(self, now: float, starts_at: float = -math.inf) -> Batch:
        """The next batch, which the device starts at `starts_at`, or at once. Something must wait."""
        works = [self._apart.popleft()] if self._apart else self._next.take(now, starts_at)
        self._trials.ran(works)
        return Batch.of(works)

    @property
    def in_order(self) -> bool:
        """Whether replies leave in the order of arrival, so that one batch runs at a time."""
        return self._policy.preserve_ordering

    @property
    def leading(self) -> tuple[Lane, float] | None:
        """The highest lane in which requests wait, and when its oldest arrived; None where none do."""
        return next(((lane, queue.oldest) for lane, queue in self._next.queues.items() if len(queue)), None)

    def rows(self, *lanes: Lane) -> int:
        """Rows that wait in these lanes."""
        return sum([self._next.queues[lane].rows for lane in lanes])

    @property
    def next_change(self) -> float:
        """Before this, monotonic seconds, `take_expired` and `take_hopeless` give nothing."""
        last_hope = math.inf if self.doubts_run_times else self._last_hope
        return min(self.earliest_expiry, last_hope, self._next_overdue)

    def take_hopeless(self, now: float, free_at: float) -> list[Work]:
        """Those to be refused: overdue where the model says so, or late even if they ran alone, from `free_at` on."""
        refused = self._move_overdue(now) if now >= self._next_overdue else []
        start = max(now, free_at)
        if start >= self._last_hope and not self.doubts_run_times:
            refused += self._take_late(now, start)
        return refused

    def is_overdue(self, work: Work, now: float) -> bool:
        """Whether it has waited longer than its queue allows."""
        return self._overdue_at(work) <= now

    def _take_late(self, now: float, start: float) -> list[Work]:
        hopeful_until = {work: self._hopeful_until(work) for work in self._waiting()}
        late = {work for work, until in hopeful_until.items() if until <= start and not self._is_tried(work, now)}
        self._last_hope = min((until for until in hopeful_until.values() if until > start), default=math.inf)
        return self.take_out(late.__contains__) if late else []

    def _is_tried(self, work: Work, now: float) -> bool:
        return self._trials.choose(work, self._next.run_time(work.bucket)(work.rows, work.cost), now)

    def _hopeful_until(self, work: Work) -> float:
        """When it must start at the latest; infinite where nobody knows."""
        if work.expires is None or work in self._trials:
            return math.inf
        takes_s = self._next.run_time(work.bucket)(work.rows, work.cost)
        return work.due - takes_s - TO_ANSWER_S if takes_s else math.inf

    def _move_overdue(self, now: float) -> list[Work]:
        """Overdue requests go where the model wants them; those that it wants refused."""
        waiting = [each for queue in self._next.queues.values() for each in queue.entries() if not _is_behind(each)]
        times = [(self._overdue_at(work), work) for _, _, work in waiting]
        self._next_overdue = min((at for at, _ in times if at > now), default=math.inf)
        overdue = {id(work) for at, work in times if at <= now}
        refused: list[Work] = []
        for work in self._next.take_out(lambda work: id(work) in overdue):
            what = queue_of(self._policy, work.priority).overdue
            if what is Overdue.DROP:
                refused.append(work)
            elif what is Overdue.SINGLY:
                self._apart.append(work)
            else:
                self._next.add_all([self._entry(work, behind=True)])
        return refused

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out those that the predicate names."""
        gone = [work for work in self._apart if leaves(work)]
        if gone:
            self._apart = deque(work for work in self._apart if not leaves(work))
        gone += self._next.take_out(leaves)
        self._trials.left(gone)
        self._find_expiry(self._waiting())
        return gone

    def _waiting(self) -> Iterator[Work]:
        yield from self._apart
        for queue in self._next.queues.values():
            yield from (entry[2] for entry in queue.entries())


def _urgency(work: Work) -> float:
    return work.arrived + PATIENCE_S if work.expires is None else work.expires


def _is_behind(entry: Entry) -> bool:
    return isinstance(entry[0], tuple) and bool(entry[0][0])
