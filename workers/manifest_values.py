"""Values in a `model.yaml` as the types that they stand for, or what is wrong with them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from producer_sdk.tensors import MAX_DIMENSIONS, Datatype

from .runners.engine import TensorSpec


class Wrong(Exception):
    """A value is not what its key takes."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def read_tensor(path: str, item: Mapping[str, Any]) -> TensorSpec:
    """One entry of `inputs` or `outputs`, in either vocabulary; raises Wrong."""
    own = {"data_type": "datatype", "dims": "shape"}
    values: dict[str, Any] = {}
    for key, value in item.items():
        name = own.get(key, key)
        if name not in ("name", "datatype", "shape", "batched", "batch_axis"):
            raise Wrong(f"{path}.{key}", unknown(key, {"name", "datatype", "data_type", "shape", "dims", "batched"}))
        if name in values:
            raise Wrong(f"{path}.{key}", f"{key} and {name} mean the same thing: give one")
        values[name] = value
    for name in ("name", "datatype", "shape"):
        if name not in values:
            raise Wrong(path, f"{name} is missing")
    return TensorSpec(
        convert(f"{path}.name", values["name"], Annotated[str, Meta(min_length=1, max_length=256)]),
        _datatype(f"{path}.datatype", values["datatype"]),
        convert(
            f"{path}.shape",
            values["shape"],
            Annotated[tuple[Annotated[int, Meta(ge=-1, lt=2**32)], ...], Meta(max_length=MAX_DIMENSIONS - 1)],
        ),
        _batched(path, values),
    )


def convert(key: str, value: object, kind: Any) -> Any:
    """The value as the type, or Wrong with the key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as err:
        text = str(err).replace(" - at `$`", "").replace(" - at `$", " at `").replace("`", "'")
        raise Wrong(key, f"{text[:1].lower()}{text[1:]}; it is {str(value)[:80]!r}") from err


def _batched(path: str, values: Mapping[str, Any]) -> bool:
    """`batched: false` and `batch_axis: null` both say that a tensor has no rows."""
    axis = values.get("batch_axis", 0)
    if axis not in (0, None):
        raise Wrong(f"{path}.batch_axis", f"{axis!r} is not supported yet: rows lie along axis 0, or there are none")
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
    near = difflib.get_close_matches(plain.upper(), list(Datatype), 1)
    raise Wrong(path, f"{word!r} is no datatype: use one of {', '.join(Datatype)}" + _did_you_mean(near))


def unknown(key: str, known: AbstractSet[str]) -> str:
    return f"{key!r} is not a known key" + _did_you_mean(difflib.get_close_matches(key, known, 1))


def _did_you_mean(near: list[str]) -> str:
    return f": did you mean {str(near[0])!r}?" if near else ""
