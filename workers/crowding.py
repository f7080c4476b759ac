"""One tenant that would fill the batches of a lane by itself, while others use the lane, too. Pure.

Turns alone do not keep the others' latency: theirs is the next batch, but a full one ahead of it and a full one with it
take far longer than the small ones that they had before. So batches that such a tenant fills are kept short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .headroom import BARELY_LONGER, NO_LESS, STRETCHED, Headroom
from .line import Line
from .work import Work


class Crowding:
    """What was seen of a lane's tenants beside the one with most rows."""

    __slots__ = ("_main", "_others")

    def __init__(self) -> None:
        self._main: str | None = None
        self._others = Headroom()

    def note(self, works: Sequence[Work], run_s_of_row: float, now: float) -> None:
        """A batch of these starts; a row of it runs for so long, alone."""
        rows = Counter[str | None]()
        for work in works:
            rows[work.request.tenant] += work.rows
        main = max(rows, key=rows.__getitem__)
        others = [work for work in works if work.request.tenant != main] or ([] if main == self._main else works)
        self._main = main
        if others:
            self._others.note(others, run_s_of_row, now)

    def is_watched(self, now: float) -> bool:
        """Whether more than one tenant is to be expected."""
        return self._others.is_watched(now)

    def spare_s(self, slo_s: float | None) -> float:
        """Seconds that a tenant may keep the device in all beside the others."""
        return self._others.spare_s(slo_s)


def rows_beside(lines: Mapping[str | None, Line], most_rows: int) -> int | None:
    """Rows of all tenants but the one that crowds the lane; None where none does.

    A tenant does so that has half of a full batch waiting, and more than all the others together.
    """
    rows = [line.rows for line in lines.values()]
    most = max(rows)
    beside = sum(rows) - most
    return beside if 2 * most >= most_rows and most > beside else None


def most_s(alone_s: float, beside_s: float, spare_s: float) -> float:
    """How long a batch may run that such a tenant fills.

    Args:
        alone_s: run of a single row.
        beside_s: run of the others' rows that wait; 0 where none do.
        spare_s: what the others' deadlines leave.
    """
    others_s = max(BARELY_LONGER * beside_s, STRETCHED * alone_s) if beside_s else NO_LESS * alone_s
    return max(others_s, spare_s)
