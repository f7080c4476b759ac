"""What is wrong between the inputs and outputs of a model that refer to each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..cost import check_cost
from .engine import LoadFailed, Signature, TensorSpec
from .variable import Making


def check_signature(signature: Signature, cost: str | None) -> None:
    """Refuse a signature, known in full, that contradicts itself, or in which a declared cost means nothing.

    Raises:
        LoadFailed: saying what in model.yaml is wrong.
    """
    for misfit in misfits(signature.inputs, signature.outputs, complete=True):
        raise LoadFailed(f"{misfit.name!r} in model.yaml: {misfit.key}: {misfit.reason}")
    ranks = {spec.name: len(spec.shape) + spec.batched for spec in signature.inputs}
    wrong = None if cost is None else check_cost(cost, ranks)
    if wrong is not None:
        raise LoadFailed(f"the cost in model.yaml cannot be worked out: {wrong}")


class Misfit(Struct, frozen=True):
    """What is wrong between inputs and outputs: of which tensor, which key of it, and a sentence."""

    name: str
    key: str
    reason: str


def misfits(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, complete: bool) -> Iterator[Misfit]:
    """What is wrong with how inputs and outputs refer to each other. Not `complete`: the model may have more inputs."""
    by_name = {spec.name: spec for spec in inputs}
    made: set[str] = set()
    for spec in inputs:
        yield from _misfits_of_input(spec)
        for key in ("mask", *Making):
            name = getattr(spec, key)
            if name is None:
                continue
            reason = _misfit_of(key, spec, by_name.get(name), complete)
            if key != "mask" and name in made:
                reason = f"input {name!r} would be made twice: give each an input of its own"
            made.add(name)
            if reason:
                yield Misfit(spec.name, key, reason)
    for spec in outputs:
        if spec.cut_like is not None:
            reason = _misfit_of_cut(spec, by_name.get(spec.cut_like), complete)
            if reason:
                yield Misfit(spec.name, "cut_like", reason)


def _misfits_of_input(spec: TensorSpec) -> Iterator[Misfit]:
    if spec.pad_to and spec.ragged:
        yield Misfit(spec.name, "ragged", "pad_to and ragged exclude each other: what lies end to end needs no padding")
    elif spec.pad_to and (not spec.batched or -1 not in spec.shape):
        yield Misfit(spec.name, "pad_to", "only a batched input with a variable dimension (-1) can be padded")
    elif spec.ragged and (not spec.batched or spec.shape[:1] != (-1,) or -1 in spec.shape[1:] or spec.batch_axis):
        reason = "only a batched input can be ragged whose first dimension alone is variable (-1), with batch_axis 0"
        yield Misfit(spec.name, "ragged", reason)
    if spec.mask is not None and not spec.pad_to:
        yield Misfit(spec.name, "mask", "a mask tells padding from what is real: it needs pad_to")
    for key in Making:
        if getattr(spec, key) is not None and not spec.ragged:
            yield Misfit(spec.name, key, "is of use to a ragged input alone: set `ragged: true`")


def _misfit_of(key: str, spec: TensorSpec, other: TensorSpec | None, complete: bool) -> str | None:
    """What is wrong with the input that `spec` names as its mask, or that is made of it."""
    if other is None:
        return f"there is no input {getattr(spec, key)!r}" if complete else None
    if other.datatype == "BYTES":
        return f"input {other.name!r} is BYTES: a number is needed"
    if other.pad_to or other.ragged or other is spec:
        return f"input {other.name!r} must not be padded or ragged by itself: it follows {spec.name!r}"
    if key == "mask" and (not other.batched or other.shape.count(-1) != spec.shape.count(-1)):
        return f"input {other.name!r} must have as many variable dimensions (-1) as {spec.name!r}, and rows"
    is_a_number = other.batched and other.shape in ((), (1,)) and not other.batch_axis
    if key in (Making.LENGTHS, Making.ENDS) and not is_a_number:
        return f"input {other.name!r} gets a number a row: its shape must be [] or [1], with batch_axis 0"
    if key == Making.OFFSETS and (other.batched or other.shape != (-1,)):
        return f"input {other.name!r} gets one number more than there are rows: `batched: false` and shape [-1]"
    return None


def _misfit_of_cut(spec: TensorSpec, source: TensorSpec | None, complete: bool) -> str | None:
    if source is None:
        return f"there is no input {spec.cut_like!r}" if complete else None
    if not source.pad_to and not source.ragged:
        return f"input {source.name!r} is neither padded nor ragged, so nothing is to be cut"
    variable = spec.shape.count(-1)
    if not spec.batched or not variable:
        return "only a batched output with a variable dimension (-1) can be cut"
    if source.ragged and (spec.shape[0] != -1 or variable > 1 or spec.batch_axis):
        return "an output divided among the records has its first dimension alone variable (-1), with batch_axis 0"
    if source.pad_to and source.shape.count(-1) not in (1, variable):
        return f"it must have as many variable dimensions (-1) as input {source.name!r}"
    return None
