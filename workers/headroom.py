"""How long batches of lower lanes may run, so that interactive requests that come meanwhile are in time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .work import Work

LATELY_S = 10.0  # how long after an interactive request the next one is reckoned with
_SMOOTH = 0.2
_FORGET = 1.05
NO_LESS = 1.5  # times the run of a single request: below that, batches would only waste the device
BARELY_LONGER = 1.1  # how much longer an interactive batch may run for others that fill it up
STRETCHED = 1.3  # times the run of a single request: so long it may run for them in any case


class Headroom:
    """What was seen of the interactive lane: when, how long its batches run, and what time its requests are given."""

    __slots__ = ("_given_s", "_run_s", "_seen")

    def __init__(self) -> None:
        self._seen = -math.inf
        self._run_s = 0.0
        self._given_s = math.inf

    def note(self, works: Sequence[Work], run_s: float, now: float) -> None:
        """A batch of these interactive requests starts, and is to run for `run_s`; 0 where that is unknown."""
        self._seen = now
        self._run_s += (run_s - self._run_s) * (_SMOOTH if self._run_s else 1.0)
        given_s = min([work.due - work.arrived for work in works], default=math.inf)
        self._given_s = min(given_s, self._given_s * _FORGET)

    def is_watched(self, now: float) -> bool:
        """Whether interactive requests are to be expected."""
        return now - self._seen < LATELY_S

    def spare_s(self, slo_s: float | None) -> float:
        """Seconds that lower lanes may keep the device in all, while interactive requests are to be expected.

        Half of what the SLO or the shortest deadline leaves beside a run; where there is no SLO, half of a run.
        """
        wanted_s = self._run_s if slo_s is None else slo_s - self._run_s
        return max(0.0, min(wanted_s, self._given_s - self._run_s) / 2)
