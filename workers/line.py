"""Requests of one lane, bucket and tenant in the order in which they run, with their sums. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from .work import Work

Entry = tuple[Any, Any, Work]  # what it is ordered by, a tie-break that no other has, the request


class Limits(Struct, frozen=True, gc=False):
    """What a batch still takes."""

    rows: int
    nbytes: int
    cost: float

    def without(self, works: list[Work]) -> Limits:
        """What is left once those are in it."""
        return Limits(
            self.rows - sum(work.rows for work in works),
            self.nbytes - sum(work.nbytes for work in works),
            self.cost - sum(work.cost for work in works),
        )


class Line:
    """Most requests arrive in order and leave in front: they are appended, and sorted only where that is not so.

    Attributes:
        rows, nbytes, cost: sums over all of them.
        oldest: when the oldest arrived, monotonic seconds; after some have left it may be too early, until `refresh`.
        tightest: the earliest deadline likewise; infinite without one.
    """

    __slots__ = ("_entries", "_last", "_sorted", "_stale", "cost", "nbytes", "oldest", "rows", "tightest")

    def __init__(self, least: Any) -> None:
        """`least`: what the first entry is ordered by."""
        self._entries: list[Entry] = []
        self._last = least
        self._empty()

    def _empty(self) -> None:
        self.rows = self.nbytes = 0
        self.cost = 0.0
        self.oldest = self.tightest = math.inf
        self._stale = False
        self._sorted = True

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[Entry]:
        """All of them, the most urgent first; not to be changed."""
        if not self._sorted:
            self._entries.sort()
            self._sorted = True
        return self._entries

    def add_all(self, entries: list[Entry]) -> None:
        keys, works = [entry[0] for entry in entries], [entry[2] for entry in entries]
        self._entries += entries
        if keys[0] < self._last or keys != sorted(keys):
            self._sorted = False
        self._last = max(self._last, max(keys))
        self.rows += sum([work.rows for work in works])
        self.nbytes += sum([work.nbytes for work in works])
        self.cost += sum([work.cost for work in works])
        self.oldest = min(self.oldest, min([work.arrived for work in works]))
        dues = [work.due for work in works if work.expires is not None]
        if dues:
            self.tightest = min(self.tightest, min(dues))

    def refresh(self) -> None:
        """Find `oldest` and `tightest` anew, where they may be of requests that have left."""
        if self._stale:
            works = [entry[2] for entry in self.entries]
            self.oldest = min([work.arrived for work in works], default=math.inf)
            self.tightest = min([work.due for work in works], default=math.inf)
            self._stale = False

    def first(self, limits: Limits) -> int:
        """How many of the first ones fit."""
        if self.rows <= limits.rows and self.nbytes <= limits.nbytes and self.cost <= limits.cost:
            return len(self.entries)
        rows, nbytes, cost = limits.rows, limits.nbytes, limits.cost
        if self.rows == len(self._entries) and self.nbytes <= limits.nbytes and self.cost <= limits.cost:
            return max(0, rows)  # single rows, of which nothing else takes too much
        for place, entry in enumerate(self.entries):
            work = entry[2]
            rows -= work.rows
            nbytes -= work.nbytes
            cost -= work.cost
            if rows < 0 or nbytes < 0 or cost < 0:
                return place
        return len(self.entries)

    def take_first(self, count: int) -> list[Work]:
        """Take out the first ones."""
        entries = self.entries
        works = [entry[2] for entry in entries[:count]]
        del entries[:count]
        self._subtract(works)
        return works

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out every one that `leaves` is true of."""
        going = [entry[2] for entry in self.entries if leaves(entry[2])]
        if going:
            gone = {id(work) for work in going}
            self._entries = [entry for entry in self._entries if id(entry[2]) not in gone]
            self._subtract(going)
        return going

    def _subtract(self, works: list[Work]) -> None:
        if not self._entries:
            self._empty()  # sums of floats do not come back to 0 by themselves
            return
        self.rows -= sum([work.rows for work in works])
        self.nbytes -= sum([work.nbytes for work in works])
        self.cost -= sum([work.cost for work in works])
        self._stale = True


def runs_of(works: Sequence[Work]) -> Iterator[Sequence[Work]]:
    """Neighbours that share lane, bucket and tenant, and all run alone or do not."""
    begin = 0
    for place, (before, work) in enumerate(pairwise(works), 1):
        if (
            (work.bucket is not before.bucket and work.bucket != before.bucket)
            or work.lane is not before.lane
            or work.request.tenant != before.request.tenant
            or work.alone is not before.alone
        ):
            yield works[begin:place]
            begin = place
    if works:
        yield works[begin:] if begin else works
