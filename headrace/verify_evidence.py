"""A history with its facts brought together: what became of each request, and when. Read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct

from headrace.verify_facts import Accepted, Buried, History, Moved, Told
from producer_sdk.broker import TopicPartition
from producer_sdk.errors import Code

# A second outcome beside one of these contradicts nothing: time, the caller, a crash or a quota may overtake a result.
EXCUSED = frozenset((Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.RUNNER_CRASHED, Code.QUOTA_EXCEEDED))

Place = tuple[TopicPartition, int]
Came = TypeVar("Came", Moved, Buried)


class Fate(Enum):
    """What became of a request."""

    ENDED = "ended"  # it has an outcome
    WAITING = "waiting"  # none yet, and it is not finished: a worker will read it
    LOST = "lost"  # none, and it is finished: nobody will read it again
    UNVERIFIABLE = "unverifiable"  # as lost, but an outcome may have been deleted since


class Violation(Struct, frozen=True):
    """A part of the promise (a to h) that was broken, as a sentence with ids and places."""

    part: str
    sentence: str


class Evidence:
    """A history, and what became of each of its requests. Read-only."""

    def __init__(self, history: History, clock_skew_s: float) -> None:
        self.history = history
        self.skew_ms = round(clock_skew_s * 1000)
        self.told = _by_id(history.told)
        self.buried: Mapping[Place, list[Buried]] = _by_origin(history.buried)
        self.moved: Mapping[Place, list[Moved]] = _by_origin(history.moved)
        self._last_events: dict[str, int] | None = None
        self.requests = [*history.accepted, *_orphans(history.accepted, self.moved)]

    def last_event_ms(self, worker: str) -> int:
        """When the worker was heard of last; 0 where it never was."""
        if self._last_events is None:
            self._last_events = {}
            heard = [(each.worker, each.at_ms) for each in self.history.started]
            heard += [(each.worker, each.at_ms) for each in self.history.commits]
            for name, at_ms in heard:
                self._last_events[name] = max(at_ms, self._last_events.get(name, 0))
        return self._last_events.get(worker, 0)

    def fate(self, request: Accepted) -> Fate:
        place = (request.partition, request.offset)
        if request.id in self.told or place in self.buried:
            return Fate.ENDED
        moved = self.moved.get(place, ())
        # A request that was moved is finished at its first place; it is to be read as long as one of the others is not.
        if not self.is_finished(*place) or any(not self.is_finished(each.partition, each.offset) for each in moved):
            return Fate.WAITING
        return Fate.UNVERIFIABLE if self.may_be_deleted(request) else Fate.LOST

    def is_silenced(self, request: Accepted) -> bool:
        """Whether a dead letter is all that is left of a request that could have been answered."""
        place = (request.partition, request.offset)
        if not request.readable or request.id in self.told or place not in self.buried:
            return False
        return self.is_finished(*place) and not self.may_be_deleted(request)

    def may_be_deleted(self, request: Accepted) -> bool:
        """Whether an outcome may have been there, and be deleted: one is always younger than its request."""
        moved = self.moved.get((request.partition, request.offset), ())
        gone = [self.history.gone_before_ms.get(each.answer_at) for each in (request, *moved)]
        return any(ms is not None and request.at_ms < ms + self.skew_ms for ms in gone)

    def ended_ms(self, id: str, origin: Place, record: Place) -> int | None:
        """When a record of a request was first done with: at its outcome, or when it went (on) to the retry topic."""
        times = [each.at_ms for each in self.told.get(id, ())]
        times += [each.at_ms for each in self.buried.get(origin, ())]
        times += [each.at_ms for each in self.moved.get(origin, ()) if (each.partition, each.offset) != record]
        return min(times, default=None)

    def settled(self, id: str) -> frozenset[str]:
        """The codes that an id was answered with and of which one request can have but one."""
        return frozenset(each.code for each in self.told[id]) - EXCUSED

    def times_accepted(self, ids: Collection[str]) -> Mapping[str, int]:
        """How many requests there were of each of some ids, at least one: a caller may try again under the same id.

        A record of the retry topic is none of its own, and a re-driven one had a first one, which may be deleted.
        """
        first: Counter[str] = Counter()
        redriven: Counter[str] = Counter()
        for request in self.requests:
            if request.id in ids:
                (redriven if request.redriven else first)[request.id] += 1
        return {id: max(1, first[id]) + redriven[id] for id in ids}

    def is_finished(self, partition: TopicPartition, offset: int) -> bool:
        finished = self.history.finished.get(partition)
        return finished is not None and finished.covers(offset)


def spot(partition: TopicPartition, offset: int) -> str:
    """A place, for people: as a derived id is written."""
    return f"{partition.topic}:{partition.partition}:{offset}"


def _by_id(told: Iterable[Told]) -> Mapping[str, list[Told]]:
    by_id: dict[str, list[Told]] = {}
    for each in told:
        by_id.setdefault(each.id, []).append(each)
    return by_id


def _by_origin(records: Iterable[Came]) -> Mapping[Place, list[Came]]:
    by_origin: dict[Place, list[Came]] = {}
    for each in records:
        by_origin.setdefault((each.origin, each.origin_offset), []).append(each)
    return by_origin


def _orphans(accepted: Sequence[Accepted], moved: Mapping[Place, list[Moved]]) -> Iterable[Accepted]:
    """Requests that only the retry topic still holds: their first records were deleted meanwhile."""
    left = dict(moved)
    for request in accepted if left else ():
        left.pop((request.partition, request.offset), None)
    for (origin, offset), records in left.items():
        first = records[0]
        yield Accepted(first.id, origin, offset, first.at_ms, first.answer_at)
