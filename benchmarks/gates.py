"""What the figures must reach at this stage: ratios of one run, as PERFORMANCE's spine column has them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Drained, RoundTrip

# How much of raw on the same cores a heavy model keeps.
LEAST_SHARE_OF_RAW = {"magika": 0.75, "minilm": 0.85}
LEAST_DRAIN_OF_NAIVE = 1.0
MOST_CPU_OF_NAIVE = 1.0
MOST_ROUND_TRIPS_OF_ECHO = 4.0


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


def drain_gates(drained: Drained) -> list[Gate]:
    """The gates of one model's drain, each a ratio of medians; none where a side was not measured."""
    model, raw = drained.plan.model, drained.raw
    naive, headrace = drained.system("naive"), drained.system("headrace")
    if headrace is None:
        return []
    if model in LEAST_SHARE_OF_RAW:
        share = median(headrace.per_s) / median(raw.per_s)
        return [Gate(f"{model}: share of raw on the same cores", share, LEAST_SHARE_OF_RAW[model], True)]
    if naive is None:
        return []
    cpu = median(headrace.cpu_us) / median(naive.cpu_us)
    drain = median(headrace.per_s) / median(naive.per_s)
    return [
        Gate(f"{model}: CPU a request, of the naive loop's", cpu, MOST_CPU_OF_NAIVE, False),
        Gate(f"{model}: drain, of the naive loop's", drain, LEAST_DRAIN_OF_NAIVE, True),
    ]


def round_trip_gate(round_trip: RoundTrip) -> Gate:
    """The gate of the idle round trip, a ratio of medians."""
    ratio = median(round_trip.headrace_s) / median(round_trip.echo_s)
    return Gate("mlp: idle round trip, of the raw echo's", ratio, MOST_ROUND_TRIPS_OF_ECHO, False)
