"""The requests that wait for a reply. Pure: no clock, no broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from .errors import DeadlineExceeded, HeadraceError, InvalidRequest, QueueFull
from .wire import Reply

Outcome = Reply | HeadraceError
log = logging.getLogger(__name__)


class Waiter(Protocol):
    """Told the outcome of one request, once."""

    def settle(self, outcome: Outcome) -> None: ...


class _Waiting(NamedTuple):
    due_s: float
    waiter: Waiter
    published_ms: int
    takes_tensors: bool


class Pending:
    """Waiters by request id, at most `limit`; remembers as many ids that have ended, to tell a late reply."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[str, _Waiting] = {}
        # Two generations: a full one becomes the old one, so forgetting costs nothing per request.
        self._ended: dict[str, bool] = {}
        self._ended_before: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting)

    def published(self) -> Iterator[tuple[str, int]]:
        """Ids and times, in epoch milliseconds, of the requests that wait."""
        return ((id, waiting.published_ms) for id, waiting in self._waiting.items())

    def expect(
        self, id: str, due_s: float, waiter: Waiter, published_ms: int = 0, *, takes_tensors: bool = False
    ) -> None:
        """Wait for the outcome of a request until a point in time; raises as `check` does.

        `takes_tensors`: a result may come as `TensorReply`.
        """
        self.check(id)
        self._waiting[id] = _Waiting(due_s, waiter, published_ms, takes_tensors)

    def check(self, id: str) -> None:
        """Check that a request of this id can be waited for.

        Raises:
            InvalidRequest: one waits already.
            QueueFull: too many wait.
        """
        if id in self._waiting:
            raise InvalidRequest(f"a request with the id {id!r} is still waiting for its reply: use another id", id=id)
        if len(self._waiting) >= self._limit:
            raise QueueFull(f"{self._limit} requests of this client wait for replies: no more fit", id=id)

    def settle(self, id: str, outcome: Outcome, *, answered: bool = False) -> bool:
        """Give the outcome to who waits for it; False when nobody does. `answered` means that a reply brought it."""
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return False
        self._remember(id, answered)
        try:
            waiting.waiter.settle(outcome)
        except Exception:  # a fault of who waits must keep no outcome from others
            log.exception("An outcome could not be taken.", extra={"action": "outcome_not_taken", "id": id})
        return True

    def due_s(self, id: str) -> float | None:
        """When a request that waits is past due; None where it does not wait."""
        waiting = self._waiting.get(id)
        return None if waiting is None else waiting.due_s

    def takes_tensors(self, id: str | None) -> bool:
        """Whether who waits for it does; False where nobody waits."""
        waiting = None if id is None else self._waiting.get(id)
        return waiting is not None and waiting.takes_tensors

    def forget(self, id: str) -> int | None:
        """Wait no longer; a reply that still comes is a late one. When it was published; None where it did not wait."""
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return None
        self._remember(id, False)
        return waiting.published_ms

    def was_answered(self, id: str) -> bool | None:
        """Whether an id that has ended got a reply; None for an id that was never here, or long ago."""
        answered = self._ended.get(id)
        return self._ended_before.get(id) if answered is None else answered

    def note_reply(self, id: str) -> bool | None:
        """A reply came that belongs to a request that has ended; what `was_answered` gave until now."""
        answered = self.was_answered(id)
        if answered is False:
            self._remember(id, True)
        return answered

    def sweep(self, now_s: float) -> float | None:
        """End what is past due with DeadlineExceeded; the next point in time at which something will be, if any."""
        due = [id for id, waiting in self._waiting.items() if waiting.due_s <= now_s]
        for id in due:
            self.settle(id, DeadlineExceeded("no reply came within the deadline", id=id))
        return min((waiting.due_s for waiting in self._waiting.values()), default=None)

    def _remember(self, id: str, answered: bool) -> None:
        if len(self._ended) >= self._limit:
            self._ended_before, self._ended = self._ended, {}
        self._ended[id] = answered
