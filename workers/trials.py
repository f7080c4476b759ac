"""Which requests run although they seem hopeless, so that a prediction that is wrong is found out. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .work import Work

FIRST_PAUSE_S = 1.0
RARELY = 20.0  # in the end a trial takes no more than one part in so many of the device's time
MOST_BUCKETS = 256


class _Pause(Struct):
    """Until when the requests of a bucket are refused (monotonic seconds), and for how long since the last trial."""

    ends: float
    length_s: float


class Trials:
    """Without them a bucket that was once predicted to take too long would be refused for ever: who never runs teaches
    nothing. Where nothing of a bucket has run for a second though requests of it were refused, one is tried, and the
    next after pauses that double. One event loop touches it; time is passed in.
    """

    def __init__(self) -> None:
        self._pauses: dict[object, _Pause] = {}
        self._chosen: set[Work] = set()

    def __contains__(self, work: Work) -> bool:
        """Whether it is on trial: it is not to be refused."""
        return work in self._chosen

    def choose(self, work: Work, takes_s: float, now: float) -> bool:
        """Whether this one, predicted to take so long, is tried from now on, instead of refused."""
        pause = self._pauses.get(work.bucket)
        if pause is None:
            if len(self._pauses) >= MOST_BUCKETS:
                del self._pauses[next(iter(self._pauses))]
            self._pauses[work.bucket] = _Pause(now + FIRST_PAUSE_S, FIRST_PAUSE_S)
            return False
        if now < pause.ends:
            return False
        pause.length_s = min(2.0 * pause.length_s, max(FIRST_PAUSE_S, RARELY * takes_s))
        pause.ends = now + pause.length_s
        self._chosen.add(work)
        return True

    def ran(self, works: Iterable[Work]) -> None:
        """These make a batch: unless it is a trial, predictions of their bucket are being put right anyway."""
        if not self._pauses and not self._chosen:
            return
        for work in works:
            if work in self._chosen:
                self._chosen.discard(work)
            else:
                self._pauses.pop(work.bucket, None)

    def left(self, works: Iterable[Work]) -> None:
        """These do not wait any more, and have not run."""
        if self._chosen:
            self._chosen.difference_update(works)
