"""Values in a `model.yaml` as the types that they stand for, or what is wrong with them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from producer_sdk.setting import shown
from producer_sdk.tensors import MAX_DIMENSIONS, Datatype

from .runners.engine import TensorSpec

_SHAPE = Annotated[
    tuple[Annotated[int, Meta(ge=-1, lt=2**32)], ...],
    Meta(
        max_length=MAX_DIMENSIONS - 1,
        description=f"a list of at most {MAX_DIMENSIONS - 1} whole numbers, without the rows; -1 is any length",
    ),
]
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict[str, Any]: "`key: value` lines",
    list[dict[str, Any]]: "a list with `key: value` lines in each item",
}


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
        convert(f"{path}.shape", values["shape"], _SHAPE),
        _batched(path, values),
    )


def convert(key: str, value: object, kind: Any) -> Any:
    """The value as the type, or Wrong with the key; a `Meta(description=...)` says in words what the type takes."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as err:
        raise Wrong(key, f"give {in_words(kind)}; it is {_as_yaml(value)}") from err


def in_words(kind: Any) -> str:
    """What a type takes, as `a whole number from 1 to 1024`."""
    meta = Meta()
    if get_origin(kind) is Annotated:
        kind, meta = get_args(kind)[:2]
    if meta.description is not None:
        return meta.description
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    return _WORDS.get(kind, "text") + _bounds(meta)


def _bounds(meta: Meta) -> str:
    if meta.min_length is not None:
        return " that is not empty" + ("" if meta.max_length is None else f", of at most {meta.max_length} characters")
    if meta.gt is not None:
        return f" above {meta.gt:.15g}" + ("" if meta.le is None else f" and at most {meta.le:.15g}")
    return "" if meta.ge is None or meta.le is None else f" from {meta.ge:.15g} to {meta.le:.15g}"


def _as_yaml(value: object) -> str:
    """A value as its writer knows it, short."""
    words = {True: "true", False: "false", None: "empty"}
    return words[value] if value is None or isinstance(value, bool) else shown(value)


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
    near = difflib.get_close_matches(plain.upper().replace("FLOAT", "FP"), list(Datatype), 1)
    raise Wrong(path, f"{word!r} is no datatype: use one of {', '.join(Datatype)}" + did_you_mean(near))


def unknown(key: str, known: AbstractSet[str]) -> str:
    return f"{key!r} is not a known key" + did_you_mean(difflib.get_close_matches(key, known, 1))


def did_you_mean(near: list[str]) -> str:
    return f": did you mean {str(near[0])!r}?" if near else ""
