"""How long batches take in a simulation: by a formula, or drawn from what workers have learned. Pure."""

from __future__ import annotations

import re
from random import Random
from typing import Protocol

from msgspec import Struct

NUMBER = r"\d+(?:\.\d*)?|\.\d+"
FORMULA = re.compile(rf"\s*({NUMBER})\s*(?:\+\s*({NUMBER})\s*\*\s*(rows|cost)\s*)?", re.ASCII)
HIGH_QUANTILE = 0.95
STEPS = 200  # quantiles that are told apart; a surface keeps those that it was asked for


class RunTime(Protocol):
    """Draws the seconds that a batch takes."""

    def draw_s(self, bucket: object, rows: int, cost: float, random: Random) -> float: ...


class Quantiles(Protocol):
    """A learned surface; workers/run_times.py is one."""

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = HIGH_QUANTILE) -> float: ...


class Formula(Struct, frozen=True):
    """`fixed_s + each_s * rows`, or `* cost`; also what predicts it, exactly.

    Attributes:
        spread: a batch takes up to this share longer, evenly drawn.
    """

    fixed_s: float
    each_s: float = 0.0
    of_cost: bool = False
    spread: float = 0.0

    def mean_s(self, rows: int, cost: float) -> float:
        return (self.fixed_s + self.each_s * (cost if self.of_cost else rows)) * (1 + self.spread / 2)

    def draw_s(self, bucket: object, rows: int, cost: float, random: Random) -> float:
        return self.predict_s(bucket, rows, cost, random.random() if self.spread else 0.0)

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = HIGH_QUANTILE) -> float:
        exact = self.fixed_s + self.each_s * (cost if self.of_cost else rows)
        return exact * (1 + self.spread * quantile)


class Learned(Struct, frozen=True):
    """Draws from a learned surface: a quantile of it, each as likely as another; and predicts by it."""

    surface: Quantiles

    def draw_s(self, bucket: object, rows: int, cost: float, random: Random) -> float:
        return self.predict_s(bucket, rows, cost, (random.randrange(STEPS) + 0.5) / STEPS)

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = HIGH_QUANTILE) -> float:
        return self.surface.predict_s(bucket, rows, cost, quantile)


def formula_of(text: str, spread: float = 0.0) -> Formula:
    """Read `8 + 0.5*rows`, in milliseconds.

    Raises:
        ValueError: it is no such formula.
    """
    found = FORMULA.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no run time: write milliseconds as '8', '8 + 0.5*rows' or '8 + 0.01*cost'")
    fixed, each, unit = found.groups()
    return Formula(float(fixed) / 1000, float(each or 0) / 1000, unit == "cost", spread)
