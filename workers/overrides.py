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
    rows = _rows(spec, settings)
    if rows != spec.max_batch_size:
        changes["max_batch_size"] = rows
        fitting = tuple(preferred for preferred in spec.batching.preferred_rows if preferred <= rows)
        changes["batching"] = replace(spec.batching, preferred_rows=fitting)
    if settings.low_latency:
        changes["max_wait_ms"] = 0.0
    if spec.states_rows and spec.max_batch_size < (settings.max_batch_size or 0):
        stays = (
            f"its model.yaml says max_batch_size {spec.max_batch_size}, which stays: the worker's "
            f"{settings.max_batch_size} could lower it, but does not raise it"
        )
        changes["warnings"] = (*spec.warnings, stays)
    return changes


def _rows(spec: ModelSpec, settings: WorkerSettings) -> int:
    """Who wrote a model.yaml knows what the model bears: a site may ask for less; for more where nothing is said."""
    rows = spec.max_batch_size
    if settings.max_batch_size is not None:
        rows = min(rows, settings.max_batch_size) if spec.states_rows else settings.max_batch_size
    return min(LOW_LATENCY_ROWS, rows) if settings.low_latency else rows
