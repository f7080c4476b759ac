"""What the places where requests wait have in common: who has expired leaves, or whose partition does. Pure."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from .commit import PartitionLedger
from .work import Work


class WaitingRoom(ABC):
    """Requests that wait. One event loop touches it.

    Attributes:
        earliest_expiry: before this, monotonic seconds, no waiting request expires.
    """

    def __init__(self) -> None:
        self.earliest_expiry = math.inf

    @abstractmethod
    def take_out(self, leaves: Callable[[Work], bool]) -> list[Work]:
        """Take out every request that `leaves` is true of."""

    def take_expired(self, now: float) -> list[Work]:
        """Take out every request whose deadline has passed."""
        if now < self.earliest_expiry:
            return []
        return self.take_out(lambda work: work.expires is not None and work.expires <= now)

    def drop(self, ledgers: Iterable[PartitionLedger]) -> int:
        """Forget the requests of partitions that are leaving; their next owner reads them again."""
        leaving = {id(ledger) for ledger in ledgers}
        return len(self.take_out(lambda work: id(work.source.ledger) in leaving))

    def _note_expiry(self, work: Work) -> None:
        if work.expires is not None and work.expires < self.earliest_expiry:
            self.earliest_expiry = work.expires

    def _find_expiry(self, waiting: Iterable[Work]) -> None:
        self.earliest_expiry = min((w.expires for w in waiting if w.expires is not None), default=math.inf)
