"""What measurements come to: plain values, every run kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from msgspec import Struct

from benchmarks.latencies import Summary


@dataclass(frozen=True, slots=True)
class Plan:
    """What to drain: so many single rows of a model, by these variants of headrace (and the naive loop) in turn.

    `batch` is the most rows of a batch where a variant does not say; `raw_processes` share what raw measures.
    """

    model: str
    rows: int
    batch: int
    raw_processes: int
    runs: int
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """One system's figures in each run; raw has only `per_s`, in rows per second.

    `whole_per_s` is from the first reply to the last, where `per_s` leaves both ends out. `kafka_us` is the
    broker's CPU time a row, `stolen` the share of all CPU time that other machines on the same host got meanwhile.
    `raw_per_s` is raw's rate right before and after each run, where that is what it is held to.
    """

    system: str
    per_s: Sequence[float]
    cpu_us: Sequence[float] = ()
    batch_rows: Sequence[float] = ()
    whole_per_s: Sequence[float] = ()
    kafka_us: Sequence[float] = ()
    stolen: Sequence[float] = ()
    raw_per_s: Sequence[float] = ()


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the runs' ratios.

    The pace of a machine that shares its cores changes within minutes, and with it both sides of one run.
    """
    return median(one / other for one, other in zip(ours, theirs, strict=True))


@dataclass(frozen=True, slots=True)
class Drained:
    """One model's figures. `failed` has a sentence for each system that did not do what it should."""

    plan: Plan
    raw: Figures
    systems: Sequence[Figures]
    failed: Sequence[str] = ()

    def system(self, name: str) -> Figures | None:
        """The figures of a system, raw among them."""
        return next((each for each in (self.raw, *self.systems) if each.system == name), None)

    def raw_beside(self, system: Figures) -> Sequence[float]:
        """Raw's rate in each run of a system, measured as near to it as there is one."""
        return system.raw_per_s or self.raw.per_s


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Seconds of every call, one outstanding."""

    echo_s: Sequence[float]
    headrace_s: Sequence[float]


class GatewayFigures(Struct, frozen=True):
    """One model in one form: a load for each number of connections, one alone, and the SDK's p50 beside it."""

    model: str
    form: str
    closed: dict[int, Summary]
    idle: Summary
    sdk_p50_ms: float

    @property
    def added_ms(self) -> float:
        """What a request over HTTP takes longer than one through the SDK, both idle."""
        return self.idle.p50_ms - self.sdk_p50_ms
