"""How far values spread, lately: a histogram that forgets, and its quantiles. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_MOST_WEIGHT = 1e12


class Spread:
    """Weights of `bins` bins, `width` wide from `low` on; what lies outside counts in the outermost ones.

    A value `memory` values old weighs 1/e of a new one. Instead of shrinking all weights, each new one is heavier.
    `prior` weights, where given, are what it starts with: they are forgotten like values.
    """

    __slots__ = ("_growth", "_last", "_low", "_unit", "_weights", "_width")

    def __init__(self, low: float, width: float, memory: float, prior: Sequence[float]) -> None:
        self._low = low
        self._width = width
        self._growth = math.exp(1.0 / memory)
        self._last = len(prior) - 1
        self._weights = list(prior)
        self._unit = 1.0

    def add(self, value: float) -> None:
        at = int((value - self._low) / self._width) if value > self._low else 0
        self._unit = unit = self._unit * self._growth
        self._weights[at if at < self._last else self._last] += unit
        if unit > _MOST_WEIGHT:
            self.to_state()

    def quantile(self, quantile: float) -> float:
        """The value that a share of `quantile` stays below, to a part of a bin's width."""
        above = (1.0 - quantile) * sum(self._weights)
        for at in range(self._last, -1, -1):
            weight = self._weights[at]
            if weight >= above and weight > 0.0:
                return self._low + self._width * (at + 1.0 - above / weight)
            above -= weight
        return self._low

    @property
    def weight(self) -> float:
        """How many new values it weighs; at most a little over `memory`."""
        return sum(self._weights) / self._unit

    def scale(self, factor: float) -> None:
        """Make all that it knows weigh `factor` times as much."""
        self._weights = [weight * factor for weight in self._weights]

    def to_state(self) -> list[float]:
        """The weights, where a new value weighs 1."""
        self._weights = [weight / self._unit for weight in self._weights]
        self._unit = 1.0
        return list(self._weights)
