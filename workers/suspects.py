"""Which records are tried first after a worker has ended without a goodbye, and how many at a time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from producer_sdk.broker import Record

from .commit import PartitionLedger

LEAST_CHARGE_OF_NARROWED = 2  # it was there at two deaths already: the one that nobody saw coming, and its group's


class Suspect(Struct, frozen=True):
    """A record that was in flight when a worker ended, and the ledger of its partition."""

    record: Record
    ledger: PartitionLedger

    @property
    def offset(self) -> int:
        return self.record.offset


class Trial(Struct, frozen=True):
    """Suspects to be tried now. What is committed beforehand tells the next worker whom to suspect if this one ends.

    Attributes:
        suspects: one, or as many as share a batch.
        alone: it is a single one, and the attempt is charged to it.
    """

    suspects: tuple[Suspect, ...]
    alone: bool

    @property
    def pending(self) -> bool:
        """Whether one of them has no acknowledged outcome yet, and is still ours."""
        return any(each.ledger.is_unfinished(each.offset) for each in self.suspects if each.ledger.is_ours)


class Suspects:
    """Records under suspicion, in the order of arrival.

    They are not even decoded before their trial: decoding, too, happens in the worker. A first trial takes a whole
    batch, so that an end that no record is to blame for (the machine's, say) costs little. If that trial ends the
    worker, each of its records is tried alone.
    """

    def __init__(self, group_size: int, attempt_limit: int) -> None:
        self._group_size = group_size if attempt_limit >= LEAST_CHARGE_OF_NARROWED else 1
        self._waiting: deque[Suspect] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, suspect: Suspect) -> None:
        self._waiting.append(suspect)

    def drop(self, ledgers: Iterable[PartitionLedger]) -> None:
        """Forget those of partitions that are leaving."""
        leaving = {id(ledger) for ledger in ledgers}
        self._waiting = deque(each for each in self._waiting if id(each.ledger) not in leaving)

    def next_trial(self) -> Trial:
        """The suspects to try next; there must be one."""
        first = self._waiting.popleft()
        if self._group_size == 1 or _is_marked(first):
            return Trial((first,), alone=True)
        group = [first]
        while self._waiting and len(group) < self._group_size and not _is_marked(self._waiting[0]):
            group.append(self._waiting.popleft())
        return Trial(tuple(group), alone=False)


def _is_marked(suspect: Suspect) -> bool:
    return suspect.ledger.is_narrowed(suspect.offset) or suspect.ledger.attempts(suspect.offset) > 0


def begin(trial: Trial) -> Sequence[PartitionLedger]:
    """Note the trial in its ledgers; it must not begin before they are committed."""
    ledgers = {id(each.ledger): each.ledger for each in trial.suspects}
    for ledger in ledgers.values():
        ledger.trying(each.offset for each in trial.suspects if each.ledger is ledger)
    if trial.alone:
        (suspect,) = trial.suspects
        least = LEAST_CHARGE_OF_NARROWED if suspect.ledger.is_narrowed(suspect.offset) else 1
        suspect.ledger.charge_ahead(suspect.offset, max(least, suspect.ledger.attempts(suspect.offset) + 1))
    return list(ledgers.values())


def end(trial: Trial) -> None:
    """The worker has outlived it."""
    for suspect in trial.suspects:
        suspect.ledger.take_back(suspect.offset)
        suspect.ledger.trying(())
