"""Made traces: arrivals at a rate, in one of four patterns, each request drawn from mixes. Pure; a seed fixes all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Generic, TypeVar

from msgspec import Struct

from headrace.sim_trace import Arrival, Trace
from producer_sdk.topics import Lane

Value = TypeVar("Value")

BURST_RATE, LULL_RATE = 3.0, 0.5  # times the mean rate, which they keep together
CYCLE_S, BURST_S = 1.0, 0.2
LOW_TIDE, HIGH_TIDE = 0.25, 1.75  # of a day: times the mean rate, at its ends and in its middle


class Pattern(StrEnum):
    """How arrivals lie in time."""

    STEADY = "steady"  # equally far apart
    POISSON = "poisson"  # independent of each other, as of many callers
    BURSTY = "bursty"  # Poisson at three times the rate for 0.2 s of each second, anywhere in it, else at half of it
    DIURNAL = "diurnal"  # Poisson at a rate that climbs from a quarter to 1.75 times and falls again, once


class Mix(Struct, Generic[Value], frozen=True):
    """Values to draw from, and how often each comes beside the others."""

    values: tuple[Value, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(value: Value) -> Mix[Value]:
        return Mix((value,), (1.0,))

    def draw(self, random: Random) -> Value:
        return self.values[0] if len(self.values) == 1 else random.choices(self.values, self.weights)[0]

    def mean(self, number: Callable[[Value], float]) -> float:
        total = sum(number(value) * weight for value, weight in zip(self.values, self.weights, strict=True))
        return total / sum(self.weights)


def mix_of(text: str, value: Callable[[str], Value]) -> Mix[Value]:
    """Read `1=9,8=1`: nine of ten times 1, else 8. A weight that is left out is 1.

    Raises:
        ValueError: a weight is no positive number, or `value` raises it.
    """
    values, weights = [], []
    for part in text.split(","):
        name, _, weight = part.partition("=")
        values.append(value(name.strip()))
        weights.append(float(weight or 1))
        if not (math.isfinite(weights[-1]) and weights[-1] > 0):
            raise ValueError(f"the weight of {name.strip()!r} is {weight}: it must be above 0")
    return Mix(tuple(values), tuple(weights))


class Load(Struct, frozen=True):
    """Requests to make up.

    Attributes:
        rate: requests a second, on average.
        seconds: for how long.
        pattern: how they lie in time.
        rows: of a request.
        lengths: of a request's rows; each is a bucket of its own, and a request costs rows times length. None: no
            buckets, and it costs its rows.
        row_bytes: bytes of a row; of one unit of length where there are lengths.
        deadlines_s: seconds from publication; None is for ever.
        lanes, tenants: whose and how urgent.
        seed: the same gives the same trace.
    """

    rate: float
    seconds: float
    pattern: Pattern = Pattern.POISSON
    rows: Mix[int] = Mix.of(1)
    lengths: Mix[int] | None = None
    row_bytes: int = 4
    deadlines_s: Mix[float | None] = Mix.of(None)
    lanes: Mix[Lane] = Mix.of(Lane.ASYNC)
    tenants: Mix[str | None] = Mix.of(None)
    seed: int = 0


def make_trace(load: Load) -> Trace:
    """The arrivals of a load."""
    random = Random(load.seed)
    times = _times(load, random)
    arrivals = tuple(_arrival(load, at_s, random) for at_s in times)
    return Trace(f"{load.pattern} at {load.rate:g} requests/s for {load.seconds:g} s, seed {load.seed}", arrivals)


def _arrival(load: Load, at_s: float, random: Random) -> Arrival:
    rows = load.rows.draw(random)
    length = load.lengths.draw(random) if load.lengths else 1
    return Arrival(
        at_s,
        load.lanes.draw(random),
        rows,
        float(rows * length),
        rows * length * load.row_bytes,
        load.deadlines_s.draw(random),
        (length,) if load.lengths else (),
        load.tenants.draw(random),
    )


def _times(load: Load, random: Random) -> Sequence[float]:
    if load.pattern is Pattern.STEADY:
        return [number / load.rate for number in range(int(load.rate * load.seconds))]
    if load.pattern is Pattern.BURSTY:
        return list(_bursty(load, random))
    if load.pattern is Pattern.DIURNAL:
        most = load.rate * HIGH_TIDE
        return [at for at in _poisson(most, 0.0, load.seconds, random) if random.random() * most < _tide(load, at)]
    return list(_poisson(load.rate, 0.0, load.seconds, random))


def _poisson(rate: float, begin: float, end: float, random: Random) -> Iterator[float]:
    at = begin + random.expovariate(rate)
    while at < end:
        yield at
        at += random.expovariate(rate)


def _bursty(load: Load, random: Random) -> Iterator[float]:
    cycle = 0.0
    while cycle < load.seconds:
        burst = cycle + random.uniform(0, CYCLE_S - BURST_S)
        parts = [(cycle, burst, LULL_RATE), (burst, burst + BURST_S, BURST_RATE)]
        cycle += CYCLE_S
        for begin, end, times in (*parts, (burst + BURST_S, cycle, LULL_RATE)):
            yield from _poisson(load.rate * times, begin, min(end, load.seconds), random)


def _tide(load: Load, at_s: float) -> float:
    """Requests a second at that time of the day that a diurnal load lasts."""
    height = (1 - math.cos(2 * math.pi * at_s / load.seconds)) / 2
    return load.rate * (LOW_TIDE + (HIGH_TIDE - LOW_TIDE) * height)
