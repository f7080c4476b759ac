"""What a simulation drives: the worker's own parts, or what they are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from producer_sdk.topics import Lane
from workers.work import Batch, Work


class Scheduler(Protocol):
    """What decides on batches: `workers.backlog.Backlog`, or what it is compared with."""

    def __len__(self) -> int: ...
    def room(self, lane: Lane) -> int: ...
    def half_empty(self, lane: Lane) -> bool: ...
    def add(self, work: Work) -> None: ...
    def close_at(self, now: float, *, idle: bool, intake_paused: bool, free_at: float, deep: bool) -> float: ...
    def take(self, now: float, starts_at: float = ...) -> Batch: ...
    def take_expired(self, now: float) -> list[Work]: ...
    def take_hopeless(self, now: float, free_at: float) -> list[Work]: ...
    @property
    def next_change(self) -> float: ...


class Observer(Protocol):
    """Learns from runs; workers/run_times.py does."""

    def observe(self, bucket: object, rows: int, cost: float, run_s: float) -> None: ...


class Governor(Protocol):
    """Sizes batches so that an SLO holds; workers/slo.py does."""

    def max_rows(self, now: float) -> int: ...
    def wait_s(self, now: float) -> float: ...
    def took(self, rows: int, left_rows: int, now: float, cost: float = 0.0) -> None: ...
    def observe(self, latency_s: float, now: float) -> None: ...


class Governed(Struct):
    """A scheduler whose batch sizes are governed: `bound` sets most rows and how long the oldest may wait."""

    governor: Governor
    bound: Callable[[int, float], None]
