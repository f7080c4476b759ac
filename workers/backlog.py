"""The bounded waiting room of one model: ordered by lane and deadline, apart by bucket."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from producer_sdk.topics import Lane

from .batch import Waiting
from .waiting_room import WaitingRoom
from .work import Batch, Work

PATIENCE_S = 60.0  # a request without a deadline is ordered as if it had this one, so that it cannot starve
LEAST_USUAL = 512
USUAL_BATCHES = 4  # fills the next batch while one runs and one lies ready; more alive at once costs cache misses
_RANK = {lane: rank for rank, lane in enumerate(Lane)}

_Entry = tuple[int, float, int, Work]


def usual_requests(max_batch_size: int) -> int:
    """How many requests may wait where no setting says so."""
    return max(LEAST_USUAL, USUAL_BATCHES * max_batch_size)


class _Bucket:
    """Requests that may share a batch, most urgent first, with their sums."""

    __slots__ = ("expires", "heap", "nbytes", "oldest", "rows", "stale")

    def __init__(self) -> None:
        self.heap: list[_Entry] = []
        self.rows = self.nbytes = 0
        self.oldest = self.expires = math.inf
        self.stale = False  # oldest and expires may be of requests that have left

    def add(self, entry: _Entry) -> None:
        work = entry[3]
        heappush(self.heap, entry)
        self.rows += work.rows
        self.nbytes += work.nbytes
        self.oldest = min(self.oldest, work.arrived)
        if work.expires is not None:
            self.expires = min(self.expires, work.expires)

    def take(self, max_rows: int, max_bytes: int) -> tuple[list[Work], int, int]:
        works: list[Work] = []
        rows = nbytes = 0
        heap = self.heap
        while heap:
            work = heap[0][3]
            if works and (rows + work.rows > max_rows or nbytes + work.nbytes > max_bytes):
                break
            heappop(heap)
            works.append(work)
            rows += work.rows
            nbytes += work.nbytes
        self.rows -= rows
        self.nbytes -= nbytes
        self.stale = True
        return works, rows, nbytes

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        leaving = [entry[3] for entry in self.heap if leaves(entry[3])]
        if leaving:
            self.heap = [entry for entry in self.heap if not leaves(entry[3])]
            heapify(self.heap)
            self.rows -= sum(work.rows for work in leaving)
            self.nbytes -= sum(work.nbytes for work in leaving)
            self.stale = True
        return leaving

    def waiting(self, max_rows: int) -> Waiting:
        if self.stale and self.rows < max_rows:  # a full bucket closes at once: its times do not matter
            works = [entry[3] for entry in self.heap]
            self.oldest = min((work.arrived for work in works), default=math.inf)
            self.expires = min((work.expires for work in works if work.expires is not None), default=math.inf)
            self.stale = False
        return Waiting(self.rows, self.nbytes, self.oldest, self.expires)


class Backlog(WaitingRoom):
    """Requests that wait for a batch. Pure; one event loop touches it.

    Only requests of one bucket (same variable dimensions, same unbatched inputs) can share a batch; the bucket whose
    first request is most urgent runs next. A request that was in flight when a runner died waits apart and runs alone,
    before the others.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        super().__init__()
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._size = 0
        self._buckets: dict[object, _Bucket] = {}
        self._alone: deque[Work] = deque()
        self._sequence = count()

    def __len__(self) -> int:
        return self._size

    @property
    def room(self) -> int:
        """Requests that still fit; 0 when the bytes are used up."""
        return 0 if self.nbytes >= self.max_bytes else max(0, self.max_requests - self._size)

    @property
    def half_empty(self) -> bool:
        """Whether intake that was stopped may go on: one haul for many requests costs far less than one for each."""
        return self._size <= self.max_requests // 2 and self.nbytes <= self.max_bytes // 2

    def add(self, work: Work) -> None:
        expires = work.expires
        if expires is not None and expires < self.earliest_expiry:
            self.earliest_expiry = expires
        self._size += 1
        self.nbytes += work.nbytes
        if work.alone:
            self._alone.append(work)
            return
        bucket = self._buckets.get(work.bucket)
        if bucket is None:
            bucket = self._buckets[work.bucket] = _Bucket()
        urgency = work.arrived + PATIENCE_S if expires is None else expires
        bucket.add((_RANK[work.lane], urgency, next(self._sequence), work))

    def next_up(self, max_rows: int) -> Waiting | None:
        """What the batch rule needs to know of the bucket that runs next; None when nothing waits."""
        if self._alone:
            work = self._alone[0]
            return Waiting(work.rows, work.nbytes, work.arrived, alone=True)
        return self._buckets[self._most_urgent()].waiting(max_rows) if self._buckets else None

    def take(self, max_rows: int, max_bytes: int) -> Batch:
        """The most urgent requests that fit one batch. There must be one waiting."""
        if self._alone:
            works = [self._alone.popleft()]
            rows, nbytes = works[0].rows, works[0].nbytes
        else:
            key = self._most_urgent()
            bucket = self._buckets[key]
            works, rows, nbytes = bucket.take(max_rows, max_bytes)
            if not bucket.heap:
                del self._buckets[key]
        self._size -= len(works)
        self.nbytes -= nbytes
        return Batch(tuple(works), rows)

    def _most_urgent(self) -> object:
        if len(self._buckets) == 1:
            return next(iter(self._buckets))
        return min(self._buckets, key=lambda key: self._buckets[key].heap[0][:3])

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out those that the predicate names."""
        gone = [work for work in self._alone if leaves(work)]
        self._alone = deque(work for work in self._alone if not leaves(work))
        for key, bucket in list(self._buckets.items()):
            gone += bucket.take_out(leaves)
            if not bucket.heap:
                del self._buckets[key]
        self._size -= len(gone)
        self.nbytes -= sum(work.nbytes for work in gone)
        self._find_expiry(self._waiting())
        return gone

    def _waiting(self) -> Iterable[Work]:
        yield from self._alone
        for bucket in self._buckets.values():
            yield from (entry[3] for entry in bucket.heap)
