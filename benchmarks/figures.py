"""What measurements come to: plain values, every run kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """What to drain: so many single-row requests, batches of at most `batch` rows, shared by `workers` processes."""

    model: str
    requests: int
    batch: int
    workers: int
    runs: int
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """One system's figures in each run; raw has only `per_s`, in inferences per second."""

    system: str
    per_s: Sequence[float]
    cpu_us: Sequence[float] = ()
    batch_rows: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Drained:
    """One model's figures."""

    plan: Plan
    raw: Figures
    systems: Sequence[Figures]

    def system(self, name: str) -> Figures | None:
        return next((each for each in self.systems if each.system == name), None)


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Seconds of every call, one outstanding."""

    echo_s: Sequence[float]
    headrace_s: Sequence[float]
