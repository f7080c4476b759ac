"""What the deadline rule is compared with: batches of a fixed size and timeout in order of arrival, as most servers do.

It has the face of `workers.backlog.Backlog`, so that the simulator can drive it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from producer_sdk.topics import Lane
from workers.waiting_room import WaitingRoom
from workers.work import Batch, Work


class FixedBatching(WaitingRoom):
    """First in, first out: a batch closes when it is full, or when its oldest request has waited `timeout_s`.

    A device that is busy is never given more than full batches, as with the rule that this is compared with; `drops`:
    requests whose deadline has passed are not run, which most servers cannot do. Requests are of one row.
    """

    def __init__(self, max_rows: int, timeout_s: float, *, drops: bool = False) -> None:
        super().__init__()
        self._max_rows = max_rows
        self._timeout_s = timeout_s
        self._drops = drops
        self._waiting: deque[Work] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def room(self, lane: Lane) -> int:
        return 1  # it is bounded by nothing: a full one would only move the queue elsewhere

    def half_empty(self, lane: Lane) -> bool:
        return True

    def add(self, work: Work) -> None:
        self._note_expiry(work)
        self._waiting.append(work)

    def close_at(self, now: float, *, idle: bool, intake_paused: bool, free_at: float, deep: bool) -> float:
        if deep or not self._waiting:
            return math.inf
        if len(self._waiting) >= self._max_rows:
            return -math.inf
        return self._waiting[0].arrived + self._timeout_s if idle else math.inf

    def take(self, now: float, starts_at: float = -math.inf) -> Batch:
        works = tuple(self._waiting.popleft() for _ in range(min(self._max_rows, len(self._waiting))))
        return Batch.of(works)

    @property
    def next_change(self) -> float:
        return self.earliest_expiry if self._drops else math.inf

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        gone = [work for work in self._waiting if leaves(work)]
        self._waiting = deque(work for work in self._waiting if not leaves(work))
        self._find_expiry(self._waiting)
        return gone

    def take_hopeless(self, now: float, free_at: float) -> list[Work]:
        return []
