"""What a `model.yaml` says of inputs and outputs: datatype, shape, and what becomes of dimensions that vary. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from producer_sdk.tensors import MAX_DIMENSIONS, Datatype, item_bytes

from .manifest_values import Wrong, convert, did_you_mean, unknown
from .runners.engine import TensorSpec
from .runners.misfits import misfits
from .runners.variable import Making

_SHAPE = Annotated[
    tuple[Annotated[int, Meta(ge=-1, lt=2**32)], ...],
    Meta(
        max_length=MAX_DIMENSIONS - 1,
        description=f"a list of at most {MAX_DIMENSIONS - 1} whole numbers, without the rows; -1 is any length",
    ),
]
_NAME = Annotated[str, Meta(min_length=1, max_length=256)]
_SIZE = Annotated[int, Meta(ge=1, lt=2**31)]
_SIZES = Annotated[tuple[_SIZE, ...], Meta(min_length=1, max_length=64, description="a size from 1, or a list of them")]
_AXIS = Annotated[int, Meta(ge=0, lt=MAX_DIMENSIONS)]
_OF_INPUTS: dict[str, Any] = {
    "pad_value": float,
    "mask": _NAME,
    "ragged": bool,
    "lengths": _NAME,
    "ends": _NAME,
    "offsets": _NAME,
}
_OF_OUTPUTS: dict[str, Any] = {"cut_like": _NAME}
_TRITON = {"data_type": "datatype", "dims": "shape", "allow_ragged_batch": "ragged"}
_OF_BOTH = {"name", "datatype", "shape", "batched", "batch_axis"}

_KINDS = {
    "BATCH_ELEMENT_COUNT": Making.LENGTHS,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": Making.ENDS,
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": Making.OFFSETS,
}


def read_tensor(path: str, item: Mapping[str, Any]) -> TensorSpec:
    """One entry of `inputs` or `outputs`, in either vocabulary; raises Wrong."""
    own = _OF_OUTPUTS if path.startswith("output") else _OF_INPUTS | {"pad_to": _SIZES}
    values = _in_our_words(path, item, _OF_BOTH | set(own))
    for name in ("name", "datatype", "shape"):
        if name not in values:
            raise Wrong(path, f"{name} is missing")
    datatype = _datatype(f"{path}.datatype", values["datatype"])
    shape = convert(f"{path}.shape", values["shape"], _SHAPE)
    batched = _batched(path, values)
    found = {key: convert(f"{path}.{key}", _as_list(key, values[key]), own[key]) for key in own if key in values}
    if any(small >= large for small, large in pairwise(found.get("pad_to", ()))):
        raise Wrong(f"{path}.pad_to", f"{list(found['pad_to'])} does not ascend: give each size once, smallest first")
    if "pad_value" in found:
        _check_value(f"{path}.pad_value", found["pad_value"], datatype, "pad_to" in found)
    if batched and "batch_axis" in values:
        found["batch_axis"] = axis = convert(f"{path}.batch_axis", values["batch_axis"], _AXIS)
        if axis > len(shape):
            raise Wrong(f"{path}.batch_axis", f"there is no axis {axis}: with the rows there are {len(shape) + 1} axes")
    return TensorSpec(convert(f"{path}.name", values["name"], _NAME), datatype, shape, batched, **found)


def read_batch_input(items: Sequence[Mapping[str, Any]], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs with Triton's `batch_input`, whose targets are inputs that are made; raises Wrong."""
    by_name = {spec.name: spec for spec in inputs}
    for place, item in enumerate(items):
        path = f"batch_input[{place}]"
        for key in item:
            if key not in ("kind", "target_name", "data_type", "source_input"):
                raise Wrong(f"{path}.{key}", unknown(str(key), {"kind", "target_name", "data_type", "source_input"}))
        kind = convert(f"{path}.kind", item.get("kind"), str)
        if kind not in _KINDS:
            raise Wrong(f"{path}.kind", f"{kind!r} is not supported: use one of {', '.join(_KINDS)}")
        target, source = (_only_name(f"{path}.{key}", item.get(key)) for key in ("target_name", "source_input"))
        if source not in by_name:
            raise Wrong(f"{path}.source_input", f"{source!r} is none of the declared inputs {sorted(by_name)}")
        by_name[source] = replace(by_name[source], **{_KINDS[kind].value: target})
        if target not in by_name and "data_type" in item:
            by_name[target] = _target(path, target, _KINDS[kind], item["data_type"])
    return tuple(by_name.values())


def shape_faults(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, complete: bool) -> Iterator[Wrong]:
    """What is wrong between inputs and outputs; not `complete`: the file may have inputs that are not declared."""
    for misfit in misfits(inputs, outputs, complete=complete):
        plural, specs = ("outputs", outputs) if misfit.key == "cut_like" else ("inputs", inputs)
        place = [spec.name for spec in specs].index(misfit.name)
        yield Wrong(f"{plural}[{place}].{misfit.key}", misfit.reason)


def _in_our_words(path: str, item: Mapping[str, Any], known: AbstractSet[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in item.items():
        name = _TRITON.get(key, key)
        if name not in known:
            raise Wrong(f"{path}.{key}", unknown(key, known | {old for old, new in _TRITON.items() if new in known}))
        if name in values:
            raise Wrong(f"{path}.{key}", f"{key} and {name} mean the same thing: give one")
        values[name] = value
    return values


def _batched(path: str, values: Mapping[str, Any]) -> bool:
    """`batched: false` and `batch_axis: null` both say that a tensor has no rows."""
    axis = values.get("batch_axis", 0)
    batched = convert(f"{path}.batched", values.get("batched", axis is not None), bool)
    if "batch_axis" in values and batched is not (axis is not None):
        raise Wrong(f"{path}.batch_axis", "batched and batch_axis contradict each other: give one")
    return bool(batched)


def _datatype(path: str, value: object) -> Datatype:
    """Open Inference Protocol's name, or Triton's `TYPE_` in front of it; TYPE_STRING is BYTES."""
    word = convert(path, value, str)
    plain = word.removeprefix("TYPE_")
    plain = "BYTES" if plain == "STRING" else plain
    if plain in Datatype.__members__:
        return Datatype(plain)
    near = difflib.get_close_matches(plain.upper().replace("FLOAT", "FP"), list(Datatype), 1)
    raise Wrong(path, f"{word!r} is no datatype: use one of {', '.join(Datatype)}" + did_you_mean(near))


def _as_list(key: str, value: object) -> object:
    """`pad_to: 8` is a list of one: what is larger is padded to its multiples."""
    return [value] if key == "pad_to" and isinstance(value, int) and not isinstance(value, bool) else value


def _check_value(path: str, value: float, datatype: Datatype, is_padded: bool) -> None:
    if not is_padded:
        raise Wrong(path, "is of use beside pad_to alone")
    if datatype is Datatype.BYTES:
        raise Wrong(path, "BYTES are padded with empty elements: remove it")
    bits = 8 * item_bytes(datatype)
    if datatype is Datatype.BOOL:
        low, high = 0, 1
    elif datatype.startswith("UINT"):
        low, high = 0, 2**bits - 1
    elif datatype.startswith("INT"):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    else:
        return
    if not math.isfinite(value) or value != int(value) or not low <= value <= high or abs(value) > 2**53:
        raise Wrong(path, f"{value:g} is no {datatype}: give a whole number from {low} to {high}")


def _only_name(path: str, value: object) -> str:
    """Triton's source_input is a list; one name alone has a meaning for these kinds."""
    name: str = convert(path, value[0] if isinstance(value, list) and len(value) == 1 else value, _NAME)
    return name


def _target(path: str, name: str, making: Making, data_type: object) -> TensorSpec:
    word = convert(f"{path}.data_type", data_type, Literal["TYPE_FP32", "TYPE_INT32", "TYPE_INT64"])
    datatype = Datatype(word.removeprefix("TYPE_"))
    if making is Making.OFFSETS:
        return TensorSpec(name, datatype, (-1,), batched=False)
    return TensorSpec(name, datatype, ())
