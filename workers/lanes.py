"""The requests of one lane, fairly among tenants; and which lane goes next. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec import Struct

from producer_sdk.topics import Lane

from .batch import Waiting
from .line import Entry, Limits, Line
from .runners.policies import LanePolicy
from .shares import Shares
from .work import Work

RANK: Mapping[Lane, int] = {lane: rank for rank, lane in enumerate(Lane)}
CREDIT = 8  # requests that a tenant who has asked for little may have before one who asks for much
OTHERS_BETWEEN = 4  # batches of other lanes between two that a lane gets for having waited too long


class LaneQueue:
    """What waits in one lane: apart by bucket, and there by tenant.

    Within a tenant the most urgent goes first; among tenants the one that has been served least, by cost.

    Attributes:
        count: requests that wait in it; who adds to its lines adds here, too.
    """

    __slots__ = ("buckets", "count", "lane", "tenants")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.buckets: dict[object, dict[str | None, Line]] = {}
        self.tenants: Shares[str | None] = Shares()
        self.count = 0

    def open(self, entry: Entry, tenant: str | None) -> Line:
        """A line for the first request of a tenant in a bucket."""
        line = Line(entry[0])
        self.buckets.setdefault(entry[2].bucket, {})[tenant] = line
        self.tenants.enter(tenant, CREDIT * (entry[2].cost or entry[2].rows))
        return line

    def __len__(self) -> int:
        return self.count

    @property
    def rows(self) -> int:
        return sum([line.rows for lines in self.buckets.values() for line in lines.values()])

    @property
    def nbytes(self) -> int:
        return sum([line.nbytes for lines in self.buckets.values() for line in lines.values()])

    def waiting_of(self, tenant: str | None) -> int:
        """Requests of one tenant."""
        return sum([len(lines[tenant]) for lines in self.buckets.values() if tenant in lines])

    def entries(self) -> Iterator[Entry]:
        """All that wait, in no order."""
        for lines in self.buckets.values():
            for line in lines.values():
                yield from line.entries

    @property
    def oldest(self) -> float:
        """When the oldest of all arrived, monotonic seconds."""
        lines = [line for lines in self.buckets.values() for line in lines.values()]
        for line in lines:
            line.refresh()
        return min([line.oldest for line in lines])

    def about(self, bucket: object) -> Waiting:
        """A bucket's sums; its times may be those of requests that have left, which were earlier."""
        lines = self.buckets[bucket]
        if len(lines) == 1:
            (line,) = lines.values()
            return Waiting(line.rows, line.nbytes, line.oldest, line.tightest, line.cost)
        each = lines.values()
        return Waiting(
            sum([line.rows for line in each]),
            sum([line.nbytes for line in each]),
            min([line.oldest for line in each]),
            min([line.tightest for line in each]),
            sum([line.cost for line in each]),
        )

    def cost_of_row(self, bucket: object) -> float:
        """Of a bucket's rows, on average."""
        about = self.about(bucket)
        return about.cost / about.rows

    def waiting(self, bucket: object) -> Waiting:
        """A bucket as the batch rule sees it."""
        for line in self.buckets[bucket].values():
            line.refresh()
        return self.about(bucket)

    def next_tenant(self) -> str | None:
        """Whose turn it is, of those that wait."""
        return min(self.tenants.waiting, key=self.tenants.clock)

    def most_urgent(self, among: Sequence[object]) -> object:
        """Of these buckets the one with the most urgent request, of the tenant whose turn it is if that is in one."""
        if len(self.tenants.waiting) > 1:
            tenant = self.next_tenant()
            among = [bucket for bucket in among if tenant in self.buckets[bucket]] or among
        return min(among, key=self._head)

    def _head(self, bucket: object) -> tuple[Any, Any]:
        return min(line.entries[0][:2] for line in self.buckets[bucket].values())

    def leading(self, bucket: object) -> Line:
        """The line of the tenant that is served next in a bucket."""
        lines = self.buckets[bucket]
        if len(lines) == 1:
            return next(iter(lines.values()))
        return lines[min(lines, key=self.tenants.clock)]

    def take(self, bucket: object, limits: Limits, finish: float = -math.inf) -> list[Work]:
        """Take out what fits, in turn among the tenants, without those that have to be answered before `finish`."""
        lines = self.buckets[bucket]
        if len(lines) == 1:
            ((tenant, line),) = lines.items()
            taken = _of_one(line, limits, finish)
            if taken:
                self.tenants.charge(tenant, _cost(taken))
        else:
            taken = self._of_several(lines, limits, finish)
        self._left(taken, bucket)
        return taken

    def take_one(self, bucket: object) -> list[Work]:
        """Take out the next one, whatever its size."""
        lines = self.buckets[bucket]
        tenant = min(lines, key=self.tenants.clock) if len(lines) > 1 else next(iter(lines))
        taken = lines[tenant].take_first(1)
        self.tenants.charge(tenant, _cost(taken))
        self._left(taken, bucket)
        return taken

    def take_in_order(self, bucket: object, limits: Limits) -> list[Work]:
        """Take out what fits, one at least, without any that arrived behind one of another bucket in its partition."""
        earliest: dict[int, Entry] = {}
        for other, lines in self.buckets.items():
            for entry in [] if other == bucket else [entry for line in lines.values() for entry in line.entries]:
                partition = id(entry[2].source.ledger)
                earliest[partition] = min(entry, earliest.get(partition, entry))
        (line,) = self.buckets[bucket].values()
        count = line.first(limits) or 1
        free = [entry[2] for entry in line.entries[:count] if not _is_behind(entry, earliest)]
        chosen = {id(work) for work in free}
        taken = line.take_out(lambda work: id(work) in chosen)
        self._left(taken, bucket)
        return taken

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        gone: list[Work] = []
        for bucket, lines in list(self.buckets.items()):
            going = [work for line in lines.values() for work in line.take_out(leaves)]
            self._left(going, bucket)
            gone += going
        return gone

    def _of_several(self, lines: Mapping[str | None, Line], limits: Limits, finish: float) -> list[Work]:
        tenants = self.tenants
        turns: list[tuple[float, int, str | None, Iterator[Work]]] = []
        for place, (tenant, line) in enumerate(lines.items()):
            in_order = [entry[2] for entry in line.entries]
            turns.append((tenants.clock(tenant), place, tenant, (w for w in in_order if w.due >= finish)))
        heapify(turns)
        rows, nbytes, cost = limits.rows, limits.nbytes, limits.cost
        taken: list[Work] = []
        while turns:
            _, place, tenant, eligible = heappop(turns)
            work = next(eligible, None)
            if work is None:
                continue
            rows -= work.rows
            nbytes -= work.nbytes
            cost -= work.cost
            if rows < 0 or nbytes < 0 or cost < 0:
                break
            taken.append(work)
            tenants.charge(tenant, work.cost or work.rows)
            heappush(turns, (tenants.clock(tenant), place, tenant, eligible))
        chosen = {id(work) for work in taken}
        for tenant in {work.request.tenant for work in taken}:
            lines[tenant].take_out(lambda work: id(work) in chosen)
        return taken

    def _left(self, works: list[Work], bucket: object) -> None:
        if not works:
            return
        self.count -= len(works)
        lines = self.buckets[bucket]
        for tenant in [tenant for tenant, line in lines.items() if not len(line)]:
            del lines[tenant]
            self.tenants.leave(tenant)
        if not lines:
            del self.buckets[bucket]


def _is_behind(entry: Entry, earliest: Mapping[int, Entry]) -> bool:
    other = earliest.get(id(entry[2].source.ledger))
    return other is not None and other < entry


def _cost(works: list[Work]) -> float:
    return sum([work.cost for work in works]) or sum([work.rows for work in works])


def _of_one(line: Line, limits: Limits, finish: float) -> list[Work]:
    if finish == -math.inf:
        return line.take_first(line.first(limits))
    rows, nbytes, cost = limits.rows, limits.nbytes, limits.cost
    chosen: set[int] = set()
    for entry in line.entries:
        work = entry[2]
        if work.due < finish:
            continue
        rows -= work.rows
        nbytes -= work.nbytes
        cost -= work.cost
        if rows < 0 or nbytes < 0 or cost < 0:
            break
        chosen.add(id(work))
    return line.take_out(lambda work: id(work) in chosen)


class Standing(Struct, frozen=True, gc=False):
    """A lane that has something waiting, as the choice among lanes sees it.

    Attributes:
        clock: how far it has been served for its weight.
        oldest: when its oldest request arrived, monotonic seconds.
        latest_start: when its next batch must start, so that it is in time; infinite where nothing says.
        run_s: how long its next batch would run; 0 while unknown.
    """

    lane: Lane
    clock: float
    oldest: float
    latest_start: float
    run_s: float


class Choice(Struct, frozen=True, gc=False):
    """The lane that leads the next batch; `aged`: for it has waited too long."""

    lane: Lane
    aged: bool = False


def choose(standings: Sequence[Standing], policies: Mapping[Lane, LanePolicy], now: float, may_age: bool) -> Choice:
    """Which lane's batch is next. Standings are in order of rank, at least one.

    A lane that has waited for longer than its policy says goes first while `may_age`. Else the one that has been served
    least for its weight, the higher one where that is equal, but none before a higher one that would then be late.
    """
    over = [(now - each.oldest - policies[each.lane].max_wait_s, each.lane) for each in standings]
    longest, aged = max(over, key=lambda pair: pair[0])
    if may_age and longest >= 0:
        return Choice(aged, aged=True)
    least = min(standings, key=lambda each: each.clock)
    for higher in standings:
        if higher is least:
            break
        if now + least.run_s > higher.latest_start:
            return Choice(higher.lane)
    return Choice(least.lane)
