"""The keys of a `model.yaml` on how long requests may wait, by priority, and how many of a tenant. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from .manifest_values import Wrong, convert, unknown
from .runners.policies import Overdue, QueuePolicy, TenantPolicy

PLAIN_QUEUE_KEYS = frozenset({"max_queue_size", "overdue", "queue_timeout_s"})
_TRITON = frozenset({"allow_timeout_override", "default_timeout_microseconds", "max_queue_size", "timeout_action"})
_ACTIONS = {"REJECT": Overdue.DROP, "DELAY": Overdue.INCLUDE}
_Size = Annotated[int, Meta(ge=0, le=2**31)]
_ByTenant = Annotated[dict[str, Any], Meta(description="`TENANT: NUMBER` lines")]
_TENANTS = frozenset({"max_waiting", "max_waiting_of"})
_ByLevel = Annotated[dict[Any, Any], Meta(description="`LEVEL: {...}` lines")]
_Levels = Annotated[int, Meta(ge=0, le=1000)]


def read_plain_queue(content: Mapping[str, Any]) -> QueuePolicy:
    """The policy in headrace's words, for all requests; raises Wrong."""
    values: dict[str, Any] = {}
    if "queue_timeout_s" in content:
        values["queue_timeout_s"] = convert(
            "queue_timeout_s", content["queue_timeout_s"], Annotated[float, Meta(gt=0, le=1e9)]
        )
    if "overdue" in content:
        values["overdue"] = Overdue(convert("overdue", content["overdue"], Literal["singly", "drop", "include"]))
        if "queue_timeout_s" not in content:
            raise Wrong("overdue", "there is no queue_timeout_s: without it no request is ever overdue")
    if "max_queue_size" in content:
        values["max_queue_size"] = convert("max_queue_size", content["max_queue_size"], _Size)
    return QueuePolicy(**values)


def read_queue(path: str, stated: object) -> QueuePolicy:
    """A policy in Triton's words, where an overdue request is rejected unless DELAY is said; raises Wrong."""
    values = convert(path, stated, dict[str, Any])
    for key in values:
        if key not in _TRITON:
            raise Wrong(f"{path}.{key}", unknown(key, _TRITON))
    action = convert(f"{path}.timeout_action", values.get("timeout_action", "REJECT"), Literal["REJECT", "DELAY"])
    timeout_us = convert(
        f"{path}.default_timeout_microseconds",
        values.get("default_timeout_microseconds", 0),
        Annotated[int, Meta(ge=0, le=10**15)],
    )
    return QueuePolicy(
        timeout_us / 1_000_000 if timeout_us else None,
        _ACTIONS[action],
        convert(f"{path}.allow_timeout_override", values.get("allow_timeout_override", False), bool),
        convert(f"{path}.max_queue_size", values.get("max_queue_size", 0), _Size),
    )


def read_levels(triton: Mapping[str, Any]) -> dict[str, Any]:
    """What `dynamic_batching` says of priorities, as fields of BatchPolicy; raises Wrong."""
    where = "dynamic_batching"
    levels = convert(f"{where}.priority_levels", triton.get("priority_levels", 0), _Levels)
    default = convert(f"{where}.default_priority_level", triton.get("default_priority_level", 0), _Levels)
    if levels and not 1 <= default <= levels:
        raise Wrong(f"{where}.default_priority_level", f"give one from 1 to {levels}, the number of priority_levels")
    if default and not levels:
        raise Wrong(f"{where}.default_priority_level", "there are no priority_levels: give their number, or remove it")
    queues: dict[int, QueuePolicy] = {}
    stated_levels = convert(f"{where}.priority_queue_policy", triton.get("priority_queue_policy") or {}, _ByLevel)
    for name, stated in stated_levels.items():
        path = f"{where}.priority_queue_policy.{name}"
        level = int(name) if str(name).isascii() and str(name).isdigit() else 0
        if not 1 <= level <= levels:
            raise Wrong(path, f"{name!r} is no priority level: there are {levels}" + (", from 1 on" if levels else ""))
        queues[level] = read_queue(path, stated)
    return {"priority_levels": levels, "default_priority": default, "queues": queues}


def read_tenants(content: Mapping[str, Any]) -> TenantPolicy | None:
    """How many requests of one tenant may wait; None where nothing is said. Raises Wrong."""
    if "tenants" not in content:
        return None
    values = convert("tenants", content["tenants"], dict[str, Any])
    for key in values:
        if key not in _TENANTS:
            raise Wrong(f"tenants.{key}", unknown(key, _TENANTS))
    most = convert("tenants.max_waiting", values.get("max_waiting", 0), _Size)
    stated = convert("tenants.max_waiting_of", values.get("max_waiting_of", {}), _ByTenant)
    of = {tenant: convert(f"tenants.max_waiting_of.{tenant}", number, _Size) for tenant, number in stated.items()}
    if not most and not any(of.values()):
        raise Wrong("tenants", "names no limit: give max_waiting, or max_waiting_of for single tenants, from 1")
    return TenantPolicy(most, of)
