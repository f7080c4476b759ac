"""The keys of a `model.yaml` on batches and queues, in headrace's words and in Triton's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta

from producer_sdk.topics import Lane

from .cost import check_cost
from .manifest_queues import PLAIN_QUEUE_KEYS, read_levels, read_plain_queue, read_queue, read_tenants
from .manifest_values import Wrong, convert, unknown
from .runners.engine import TensorSpec
from .runners.policies import LANES, BatchPolicy, LanePolicy, Overdue, QueuePolicy

BATCHING_KEYS = frozenset(
    {"cost", "dynamic_batching", "lanes", "max_cost", "preferred_batch_size", "slo_ms", "tenants", *PLAIN_QUEUE_KEYS}
)
_TRITON = frozenset(
    {
        "default_priority_level",
        "default_queue_policy",
        "max_queue_delay_microseconds",
        "preferred_batch_size",
        "preserve_ordering",
        "priority_levels",
        "priority_queue_policy",
    }
)
_DELAY = "max_queue_delay_microseconds"
_SIZES = Annotated[
    list[Annotated[int, Meta(ge=1, le=1_000_000)]], Meta(description="a list of rows, such as [8, 16], each from 1")
]
_Above = Annotated[float, Meta(gt=0, le=1e15)]
_Weight = Annotated[float, Meta(ge=0.001, le=1e6)]
_Wait = Annotated[float, Meta(gt=0, le=86_400)]


def read_batching(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    """Set `max_wait_ms` and `batching` in `settings`, which has the inputs; yields each value that is wrong."""
    triton: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    readers: tuple[Callable[[], Iterator[Wrong]], ...] = (
        lambda: _read_triton(content, triton),
        lambda: _read_wait(content, triton, settings),
        lambda: _read_sizes(content, triton, settings, policy),
        lambda: _read_cost(content, settings, policy),
        lambda: _read_slo(content, policy),
        lambda: _read_queues(content, triton, policy),
        lambda: _read_tenants(content, policy),
        lambda: _read_order(triton, policy),
        lambda: _read_lanes(content, policy),
    )
    for read in readers:
        try:
            yield from read()
        except Wrong as wrong:
            yield wrong
    settings["batching"] = BatchPolicy(**policy)


def _read_triton(content: Mapping[str, Any], triton: dict[str, Any]) -> Iterator[Wrong]:
    triton |= convert("dynamic_batching", content.get("dynamic_batching") or {}, dict[str, Any])
    for key in triton:
        if key not in _TRITON:
            yield Wrong(f"dynamic_batching.{key}", unknown(key, _TRITON))


def _read_wait(content: Mapping[str, Any], triton: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    """`dynamic_batching` with nothing in it is Triton's "take what waits", which is max_wait_ms 0."""
    if "dynamic_batching" not in content:
        return
    path = f"dynamic_batching.{_DELAY}"
    stated = triton.get(_DELAY)
    delay_us = convert(path, stated or 0, Annotated[int, Meta(ge=0, le=3_600_000_000)])
    own = settings.setdefault("max_wait_ms", delay_us / 1000)
    if stated is not None and own != delay_us / 1000:
        raise Wrong(path, f"{delay_us} us and max_wait_ms {own:g} contradict each other: they mean the same thing")
    yield from ()


def _read_sizes(
    content: Mapping[str, Any], triton: Mapping[str, Any], settings: Mapping[str, Any], policy: dict[str, Any]
) -> Iterator[Wrong]:
    found: dict[str, tuple[int, ...]] = {}
    for where, path in ((content, "preferred_batch_size"), (triton, "dynamic_batching.preferred_batch_size")):
        if "preferred_batch_size" in where:
            found[path] = tuple(sorted(set(convert(path, where["preferred_batch_size"], _SIZES))))
    for path, sizes in found.items():
        most = settings.get("max_batch_size", 32)
        if sizes and sizes[-1] > most:
            raise Wrong(path, f"{sizes[-1]} is above max_batch_size, {most}")
    if len(set(found.values())) > 1:
        raise Wrong("preferred_batch_size", "contradicts dynamic_batching.preferred_batch_size: give one")
    policy["preferred_rows"] = next(iter(found.values()), ())
    yield from ()


def _read_cost(content: Mapping[str, Any], settings: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    if "cost" in content:
        text = convert("cost", content["cost"], Annotated[str, Meta(min_length=1, max_length=500)])
        wrong = check_cost(text, _dimensions(settings.get("inputs") or ()))
        if wrong is not None:
            raise Wrong("cost", wrong)
        policy["cost"] = text
    if "max_cost" in content:
        if "cost" not in content:
            raise Wrong("max_cost", "there is no `cost`: give its expression, or bound the rows with max_batch_size")
        policy["max_cost"] = convert("max_cost", content["max_cost"], _Above)
    yield from ()


def _dimensions(inputs: tuple[TensorSpec, ...]) -> dict[str, int] | None:
    """How many each input has, rows included; None where the inputs are read from the model's file."""
    return {spec.name: len(spec.shape) + spec.batched for spec in inputs} or None


def _read_slo(content: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    if "slo_ms" in content:
        policy["slo_ms"] = convert("slo_ms", content["slo_ms"], Annotated[float, Meta(gt=0, le=3_600_000)])
    yield from ()


def _read_queues(content: Mapping[str, Any], triton: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    path = "dynamic_batching.default_queue_policy"
    own = read_plain_queue(content)
    if "default_queue_policy" not in triton:
        policy["queue"] = own
    else:
        policy["queue"] = read_queue(path, triton["default_queue_policy"])
        if own != QueuePolicy() and own != policy["queue"]:
            stated = " and ".join(key for key in sorted(PLAIN_QUEUE_KEYS) if key in content)
            raise Wrong(path, f"contradicts {stated}: they mean the same thing, give one")
    policy |= read_levels(triton)
    yield from ()


def _read_tenants(content: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    policy["tenants"] = read_tenants(content)
    yield from ()


def _read_order(triton: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    path = "dynamic_batching.preserve_ordering"
    if not convert(path, triton.get("preserve_ordering", False), bool):
        return
    if policy.get("priority_levels"):
        raise Wrong(path, "contradicts priority_levels, which let requests overtake each other: remove one")
    if policy.get("tenants"):
        raise Wrong(path, "contradicts tenants: in the order of arrival they are not told apart: remove one")
    queue: QueuePolicy = policy.get("queue", QueuePolicy())
    may_be_overdue = queue.queue_timeout_s is not None or queue.allow_timeout_override
    if may_be_overdue and queue.overdue is not Overdue.DROP:
        raise Wrong(path, "contradicts a queue timeout that reorders: overdue requests can only be dropped beside it")
    policy["preserve_ordering"] = True
    yield from ()


def _read_lanes(content: Mapping[str, Any], policy: dict[str, Any]) -> Iterator[Wrong]:
    if "lanes" not in content:
        return
    lanes = dict(LANES)
    for name, stated in convert("lanes", content["lanes"], dict[str, Any]).items():
        path = f"lanes.{name}"
        if name not in list(Lane):
            yield Wrong(path, unknown(name, set(Lane)))
            continue
        values = convert(path, stated, dict[str, Any])
        for key in values.keys() - {"weight", "max_wait_s"}:
            yield Wrong(f"{path}.{key}", unknown(key, {"weight", "max_wait_s"}))
        usual = lanes[Lane(name)]
        lanes[Lane(name)] = LanePolicy(
            convert(f"{path}.weight", values.get("weight", usual.weight), _Weight),
            convert(f"{path}.max_wait_s", values.get("max_wait_s", usual.max_wait_s), _Wait),
        )
    policy["lanes"] = lanes
