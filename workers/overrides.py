"""Settings of the worker that stand above those of each model.yaml. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from .runners.engine import ModelSpec
from .settings import LOW_LATENCY_ROWS, WorkerSettings


def overridden(specs: Sequence[ModelSpec], settings: WorkerSettings) -> list[ModelSpec]:
    """The models as this worker serves them. `replicas` are not among it, for the share of cores follows from them."""
    return [replace(spec, **_changes(spec, settings)) for spec in specs]


def _changes(spec: ModelSpec, settings: WorkerSettings) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if settings.isolation is not None:
        changes["isolation"] = settings.isolation
    if settings.device is not None:
        changes["device"] = settings.device
    if settings.low_latency:
        changes["max_batch_size"] = min(LOW_LATENCY_ROWS, spec.max_batch_size)
        changes["max_wait_ms"] = 0.0
    if settings.max_batch_size is not None:
        changes["max_batch_size"] = settings.max_batch_size
    if "max_batch_size" in changes:
        fitting = tuple(rows for rows in spec.batching.preferred_rows if rows <= changes["max_batch_size"])
        changes["batching"] = replace(spec.batching, preferred_rows=fitting)
    return changes
