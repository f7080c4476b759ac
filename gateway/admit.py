"""Admission: how many requests, and how many body bytes, the gateway holds at once. Full means 503 at once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from producer_sdk.announcements import Announcement
from producer_sdk.errors import QueueFull

Key = TypeVar("Key", bound=Hashable)


class Queue(NamedTuple):
    """Requests of one priority level of a model; level 0 holds those whose level has no limit of its own."""

    level: int
    limit: int


class Admission:
    """Counts what is in flight. Belongs to the event loop; other threads may read the attributes.

    Attributes:
        inflight: HTTP requests being answered, whatever they ask.
        inflight_by_model: inference requests on their way to a model and back, by model.
        inflight_by_queue: those of them whose model bounds its queue, by model and priority level.
        body_bytes: bytes of request bodies held.
    """

    def __init__(self, *, max_inflight: int, max_inflight_per_model: int, max_body_bytes_held: int) -> None:
        self._max_inflight = max_inflight
        self._max_per_model = max_inflight_per_model
        self._max_bytes = max_body_bytes_held
        self.inflight = 0
        self.inflight_by_model: dict[str, int] = {}
        self.inflight_by_queue: dict[tuple[str, int], int] = {}
        self.body_bytes = 0

    def enter(self) -> None:
        """Count one HTTP request in; `leave` counts it out.

        Raises:
            QueueFull: the gateway holds as many requests as it may.
        """
        if self.inflight >= self._max_inflight:
            raise QueueFull(f"the gateway holds {self.inflight} requests, as many as it may: try again later")
        self.inflight += 1

    def leave(self) -> None:
        self.inflight -= 1

    def hold(self, body_bytes: int) -> None:
        """Count body bytes in; `drop` counts them out.

        Raises:
            QueueFull: the gateway holds as many bytes of bodies as it may.
        """
        if self.body_bytes + body_bytes > self._max_bytes:
            raise QueueFull(f"the gateway holds {self.body_bytes} bytes of requests, as many as it may: try later")
        self.body_bytes += body_bytes

    def drop(self, body_bytes: int) -> None:
        self.body_bytes -= body_bytes

    def slot(self, model: str, queue: Queue | None = None) -> Slot:
        """Take one of the model's places, and of its queue's; the end of a `with` gives them back.

        Raises:
            QueueFull: the model, or this queue of it, has as many requests on their way as it may.
        """
        taken = self.inflight_by_model.get(model, 0)
        if taken >= self._max_per_model:
            raise QueueFull(f"model '{model}' has {taken} requests on their way, as many as it may: try again later")
        key = None if queue is None else (model, queue.level)
        if queue is not None and self.inflight_by_queue.get((model, queue.level), 0) >= queue.limit:
            of_level = f" of priority {queue.level}" if queue.level else ""
            raise QueueFull(
                f"model '{model}' has {queue.limit} requests{of_level} waiting, its max_queue_size: try again later"
            )
        _enter(self.inflight_by_model, model)
        if key is not None:
            _enter(self.inflight_by_queue, key)
        return Slot(self, model, key)


class Slot:
    """Places that are taken, given back at the end of a `with`. A generator would cost several times as much."""

    __slots__ = ("_admission", "_key", "_model")

    def __init__(self, admission: Admission, model: str, key: tuple[str, int] | None) -> None:
        self._admission = admission
        self._model = model
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        _leave(self._admission.inflight_by_model, self._model)
        if self._key is not None:
            _leave(self._admission.inflight_by_queue, self._key)


def _enter(counts: dict[Key, int], key: Key) -> None:
    counts[key] = counts.get(key, 0) + 1


def _leave(counts: dict[Key, int], key: Key) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]


def queue_of(announcement: Announcement, priority: object) -> Queue | None:
    """The queue that a request with this parameter `priority` waits in; None where the model does not bound it."""
    limits = announcement.queue_limits
    if not limits:
        return None
    named = isinstance(priority, int) and 0 < priority <= announcement.priority_levels
    level = priority if named and isinstance(priority, int) else announcement.default_priority
    level = level if level in limits else 0
    return Queue(level, limits[level]) if level in limits else None
