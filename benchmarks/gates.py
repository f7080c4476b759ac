"""What the figures must reach at this stage: ratios of one run, each with its bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Drained, Figures, RoundTrip, ratio

MOST_ROUND_TRIPS_OF_ECHO = 2.0
RAW = "raw"


@dataclass(frozen=True, slots=True)
class Gate:
    """A ratio and its bound; `at_least` tells on which side it must lie."""

    name: str
    ratio: float
    bound: float
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound


@dataclass(frozen=True, slots=True)
class Bound:
    """A gate not measured yet: `figure` of `system` over that of `of`; `cpu_us` is to be low, `per_s` high."""

    model: str
    system: str
    of: str
    bound: float
    figure: str = "per_s"

    def __str__(self) -> str:
        measure = "CPU a request" if self.figure == "cpu_us" else "rows/s"
        return f"{self.model}, {self.system}: {measure}, of {self.of}'s"

    def gate(self, drained: Drained) -> Gate | None:
        """The median of the runs' ratios; None where a side was not measured."""
        system = drained.system(self.system)
        ours = _runs(system, self.figure)
        theirs = _runs(drained.system(self.of), self.figure)
        if self.of == RAW and system is not None:
            theirs = drained.raw_beside(system)
        return Gate(str(self), ratio(ours, theirs), self.bound, self.at_least) if ours and theirs else None

    def is_open(self, drained: Drained) -> bool:
        """True for a bound of this model that its drains say nothing about."""
        return self.model == drained.plan.model and self.gate(drained) is None

    @property
    def at_least(self) -> bool:
        return self.figure == "per_s"


BOUNDS = (
    Bound("mlp", "headrace", "naive", 0.55, "cpu_us"),
    Bound("mlp", "headrace", "naive", 2.5),
    Bound("mlp", "headrace batch 256", "naive", 3.8),
    Bound("mlp", "librdkafka", "naive", 4.2),
    Bound("mlp", "librdkafka batch 256", "naive", 5.0),
    Bound("mlp", "headrace columnar", "naive", 3.8),
    Bound("mlp", "librdkafka columnar", "naive", 7.5),
    # Both cores: of raw in two processes. Either way to use them is held to the bound.
    Bound("minilm", "headrace workers 2", RAW, 0.93),
    Bound("minilm", "headrace replicas 2", RAW, 0.93),
    Bound("magika", "headrace workers 2", RAW, 0.86),
    Bound("magika", "headrace replicas 2", RAW, 0.86),
    Bound("cls", "headrace replicas 2", "naive", 2.8),
    Bound("cls", "librdkafka replicas 2", "naive", 3.9),
)


def held_to_raw(model: str) -> frozenset[str]:
    """The systems that a gate of this model compares with raw."""
    return frozenset([bound.system for bound in BOUNDS if bound.model == model and bound.of == RAW])


def drain_gates(drained: Drained) -> list[Gate]:
    """The gates of one model's drains; none where a side was not measured."""
    gates = [bound.gate(drained) for bound in BOUNDS if bound.model == drained.plan.model]
    return [gate for gate in gates if gate is not None]


def round_trip_gate(round_trip: RoundTrip) -> Gate:
    """The gate of the idle round trip, a ratio of medians."""
    of_echo = median(round_trip.headrace_s) / median(round_trip.echo_s)
    return Gate("mlp: idle round trip, of the raw echo's", of_echo, MOST_ROUND_TRIPS_OF_ECHO, False)


def _runs(figures: Figures | None, name: str) -> Sequence[float]:
    runs: Sequence[float] = () if figures is None else getattr(figures, name)
    return runs
