"""How fast requests arrive. Pure."""

from __future__ import annotations

import math

MEMORY_S = 1.0
ENOUGH_ROWS = 16


class Pace:
    """Rows a second over about the last second."""

    __slots__ = ("_asked", "_per_s", "_seen", "_since", "_so_far")

    def __init__(self) -> None:
        self._so_far = self._seen = 0
        self._per_s = 0.0
        self._since = self._asked = math.nan

    def per_s(self, now: float, so_far: int) -> float:
        """Rows a second; 0 while too few were seen to say.

        Args:
            now: monotonic seconds.
            so_far: how many rows have arrived up to now.
        """
        if math.isnan(self._since):
            self._since = self._asked = now
        rows, self._so_far = max(0, so_far - self._so_far), so_far
        self._per_s = self._per_s * math.exp((self._asked - now) / MEMORY_S) + rows / MEMORY_S
        self._asked = now
        self._seen += rows
        watched = -math.expm1((self._since - now) / MEMORY_S)  # of the memory, how much has been filled
        return self._per_s / watched if self._seen >= ENOUGH_ROWS and watched > 0.0 else 0.0
