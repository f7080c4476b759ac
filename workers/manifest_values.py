"""Values in a `model.yaml` as the types that they stand for, or what is wrong with them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from producer_sdk.setting import shown

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


def unknown(key: str, known: AbstractSet[str]) -> str:
    return f"{key!r} is not a known key" + did_you_mean(difflib.get_close_matches(key, known, 1))


def did_you_mean(near: list[str]) -> str:
    return f": did you mean {str(near[0])!r}?" if near else ""
