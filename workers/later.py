"""Requests that wait for their time: the pause before another attempt. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from .waiting_room import WaitingRoom
from .work import Work

MAX_BYTES = 64 * 1024 * 1024

_Entry = tuple[float, int, Work]


class Later(WaitingRoom):
    """Requests with the monotonic time before which they must not run, soonest first. One event loop touches it.

    The bound is kept by who adds: while `full`, nothing more should be read that may have to wait.
    """

    def __init__(self, max_requests: int, max_bytes: int = MAX_BYTES) -> None:
        super().__init__()
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._heap: list[_Entry] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def full(self) -> bool:
        return len(self._heap) >= self.max_requests or self.nbytes >= self.max_bytes

    @property
    def overfull(self) -> bool:
        """Whether not even those have room that were being worked on: far more waits than may be read."""
        return len(self._heap) >= 2 * self.max_requests or self.nbytes >= 2 * self.max_bytes

    @property
    def next_due(self) -> float:
        """When the next one may run; infinite where none waits."""
        return self._heap[0][0] if self._heap else math.inf

    def works(self) -> list[Work]:
        """All that wait, in no order."""
        return [work for _, _, work in self._heap]

    def add(self, work: Work, due: float) -> None:
        heappush(self._heap, (due, next(self._sequence), work))
        self.nbytes += work.nbytes
        self._note_expiry(work)

    def take_due(self, now: float) -> list[Work]:
        """Those whose time has come, soonest first."""
        works: list[Work] = []
        while self._heap and self._heap[0][0] <= now:
            work = heappop(self._heap)[2]
            self.nbytes -= work.nbytes
            works.append(work)
        return works

    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out every request that `leaves` is true of, whatever its time."""
        going: list[Work] = []
        staying: list[_Entry] = []
        for entry in self._heap:
            if leaves(entry[2]):
                going.append(entry[2])
            else:
                staying.append(entry)
        if going:
            heapify(staying)
            self._heap = staying
            self.nbytes -= sum(work.nbytes for work in going)
        # Also where none goes: `take_due` leaves the bound of those that it took.
        self._find_expiry(work for _, _, work in self._heap)
        return going
