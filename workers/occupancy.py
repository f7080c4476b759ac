"""When the runners of a model will be free, as far as is known. Pure."""

from __future__ import annotations

import math

DEPTH = 2  # batches of a runner: one runs and one lies ready; more only while they are short
LATE_S = 0.002


class Occupancy:
    """Slot k is one of runner k modulo `runners`, which runs its batches one after the other."""

    def __init__(self, runners: int) -> None:
        self._runners = runners
        self._ends: dict[int, float] = {}  # by slot

    def takes(self, slot: int, ends: float) -> None:
        """A batch took the slot, and ends at this time (monotonic seconds)."""
        self._ends[slot] = ends

    def leaves(self, slot: int) -> None:
        """The slot's batch has ended."""
        del self._ends[slot]

    def free_at(self, slot: int, now: float) -> float:
        """When the slot's runner comes to another batch."""
        runner = slot % self._runners
        ends = [ends for other, ends in self._ends.items() if other % self._runners == runner]
        return max(now, *ends) if ends else now

    def is_late(self, now: float) -> bool:
        """Whether a batch runs clearly longer than was expected: what else is expected is not to be relied on then."""
        return min(self._ends.values(), default=math.inf) + LATE_S < now

    def first_free_at(self, now: float) -> float:
        """When the first of the runners does."""
        return min([self.free_at(runner, now) for runner in range(self._runners)]) if self._ends else now
