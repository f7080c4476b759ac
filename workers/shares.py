"""Who goes next, so that each gets its share: of lanes by weight, of a lane's tenants evenly. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

MOST_REMEMBERED = 1024

Key = TypeVar("Key", bound=Hashable)


class Shares(Generic[Key]):
    """Start-time fair queueing: each has a clock that what it is served moves on, and the one furthest behind is next.

    Whoever comes back after a pause starts where the others are, but for what `enter` credits: nobody saves up more of
    a share than that, nobody waits for more than that and one turn of each of the others. Of those that are gone most
    are forgotten once the others have caught up with them.

    Attributes:
        waiting: those that have something waiting, and in how many places.
    """

    __slots__ = ("_clocks", "_floor", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Key, int] = {}
        self._clocks: dict[Key, float] = {}
        self._floor = 0.0  # the clock of the last one that was served, before it was

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._clocks)

    def enter(self, key: Key, credit: float = 0.0) -> None:
        """It has something waiting, in one more place. Of what it was served less than others it keeps `credit`."""
        places = self.waiting.get(key, 0)
        if not places:
            self._clocks[key] = max(self._clocks.get(key, self._floor), self._floor - credit)
        self.waiting[key] = places + 1

    def leave(self, key: Key) -> None:
        """It has nothing waiting any more in one of its places."""
        places = self.waiting.pop(key) - 1
        if places:
            self.waiting[key] = places
        elif len(self._clocks) > MOST_REMEMBERED + len(self.waiting):
            self._forget()

    def clock(self, key: Key) -> float:
        """How far it has been served; who has the least is next."""
        return self._clocks[key]

    def charge(self, key: Key, amount: float) -> None:
        """It is served so much, for its weight."""
        clock = self._clocks[key]
        self._floor = max(self._floor, clock)
        self._clocks[key] = clock + amount

    def _forget(self) -> None:
        kept = {key: clock for key, clock in self._clocks.items() if key in self.waiting or clock > self._floor}
        if len(kept) > MOST_REMEMBERED + len(self.waiting):
            kept = {key: self._clocks[key] for key in self.waiting}
        self._clocks = kept
