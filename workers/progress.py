"""Whether a model's intake gets on, as seen from outside of it. Pure: counts and `now` in, a verdict out."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Verdict(Enum):
    """What is to be done about an intake."""

    FINE = "fine"  # it gets on, or has no reason to
    REBUILD = "rebuild"  # it should get on and does not: another consumer may
    DEAD = "dead"  # another consumer did not help either: the process should be replaced


class Sight(Struct, frozen=True):
    """What is seen of an intake at a moment.

    Attributes:
        can_read: records wait in partitions that are not paused.
        can_commit: something has finished that is not committed.
        read: records polled so far.
        commits: commits that succeeded so far.
    """

    can_read: bool
    can_commit: bool
    read: int
    commits: int


class ProgressWatch:
    """Notices an intake that reads nothing although records wait, or commits nothing although work finishes.

    A consumer can be alive (it polls, its heartbeats are answered) and yet never fetch again; nothing else sees that.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._last: Sight | None = None
        self._read_since: float | None = None  # since when it could read but has not
        self._commit_since: float | None = None
        self._rebuilt_at: float | None = None

    def pardon(self) -> None:
        """There is a known reason for standing still (Kafka is away, partitions move): begin to wait anew."""
        self._read_since = self._commit_since = None

    def look(self, sight: Sight, now: float) -> Verdict:
        """The verdict now; REBUILD is given once a patience."""
        last, self._last = self._last, sight
        if last is None:
            return Verdict.FINE
        read, committed = sight.read != last.read, sight.commits != last.commits
        self._read_since = _since(self._read_since, now, waits=sight.can_read and not read)
        self._commit_since = _since(self._commit_since, now, waits=sight.can_commit and not committed)
        if read or committed:
            self._rebuilt_at = None
        waiting_since = [since for since in (self._read_since, self._commit_since) if since is not None]
        if not waiting_since or now - min(waiting_since) < self._patience_s:
            return Verdict.FINE
        if self._rebuilt_at is not None:
            return Verdict.DEAD
        self._rebuilt_at = now
        self.pardon()
        return Verdict.REBUILD


def _since(before: float | None, now: float, *, waits: bool) -> float | None:
    if not waits:
        return None
    return now if before is None else before
