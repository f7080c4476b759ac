"""What `headrace simulate` was asked for, read from the texts of its flags: a made load, and cases to try."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from headrace.failure import UsageError
from headrace.sim_case import Case, cases_of
from headrace.sim_load import Load, Mix, Pattern, mix_of
from producer_sdk.topics import Lane
from workers.runners.engine import ModelSpec

Value = TypeVar("Value")


class AskedLoad(Struct, frozen=True):
    """The flags beside `--rate`, as they were written."""

    seconds: float
    pattern: str
    rows: str
    lengths: str | None
    deadline_ms: str
    lane: str
    tenant: str
    seed: int

    def at_rate(self, rate: float) -> Load:
        """The load that they stand for. Raises UsageError."""
        return Load(
            rate,
            self.seconds,
            _value("--pattern", self.pattern, Pattern),
            mix("--rows", self.rows, whole),
            None if self.lengths is None else mix("--lengths", self.lengths, whole),
            deadlines_s=mix("--deadline-ms", self.deadline_ms, seconds_or_none),
            lanes=mix("--lane", self.lane, Lane),
            tenants=mix("--tenant", self.tenant, name_or_none),
            seed=self.seed,
        )


class AskedCases(Struct, frozen=True):
    """The flags of what is to be tried, as they were written; None takes what model.yaml says."""

    max_batch_size: str | None
    max_wait_ms: str | None
    slo_ms: str | None
    replicas: str | None
    workers: str

    def beside(self, usual: ModelSpec) -> list[Case]:
        """The cases, each setting with each. Raises UsageError."""
        sizes, waits, slos, replicas = self.max_batch_size, self.max_wait_ms, self.slo_ms, self.replicas
        return list(
            cases_of(
                [usual.max_batch_size] if sizes is None else values_of("--max-batch-size", sizes, whole),
                [usual.max_wait_ms] if waits is None else values_of("--max-wait-ms", waits, number),
                [usual.batching.slo_ms] if slos is None else values_of("--slo-ms", slos, or_none),
                [usual.replicas] if replicas is None else values_of("--replicas", replicas, whole),
                values_of("--workers", self.workers, whole),
            )
        )


def values_of(flag: str, text: str, value: Callable[[str], Value]) -> list[Value]:
    """Read `16,32`. Raises UsageError."""
    return [_value(flag, part.strip(), value) for part in text.split(",")]


def mix(flag: str, text: str, value: Callable[[str], Value]) -> Mix[Value]:
    """Read `1=9,8=1`. Raises UsageError."""
    try:
        return mix_of(text, value)
    except ValueError as err:
        raise UsageError(f"{flag} {text!r} cannot be read: {err}. Write VALUE=WEIGHT,VALUE=WEIGHT.") from err


def whole(text: str) -> int:
    """A whole number from 1 on."""
    if int(text) < 1:
        raise ValueError(f"{text} is below 1")
    return int(text)


def number(text: str) -> float:
    """A number from 0 on."""
    if not 0 <= float(text) < math.inf:
        raise ValueError(f"{text} is no number from 0 on")
    return float(text)


def or_none(text: str) -> float | None:
    """A number above 0, or `none`."""
    if text == "none":
        return None
    if not number(text):
        raise ValueError("it must be above 0; write none for none")
    return float(text)


def seconds_or_none(text: str) -> float | None:
    """Milliseconds as seconds, or `none`."""
    value = or_none(text)
    return None if value is None else value / 1000


def name_or_none(text: str) -> str | None:
    return None if text == "none" else text


def _value(flag: str, text: str, value: Callable[[str], Value]) -> Value:
    try:
        return value(text)
    except ValueError as err:
        raise UsageError(f"{flag} {text!r} cannot be read: {err}.") from err
