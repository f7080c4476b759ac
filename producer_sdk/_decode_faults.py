"""What is wrong with bytes that the decoder refuses, in the words of the wire: it speaks in Python's types."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .tensors import Datatype

MAX_SHOWN_CHARS = 80

_PLACE = re.compile(r"(.*?)(?: - at `(.*)`)?", re.DOTALL)
_KIND = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_LENGTH = re.compile(r"Expected `(\w+)` of (?:at least |at most )?length (>=|<=)? ?(\d+).*", re.DOTALL)
_RANGE = re.compile(r"Expected `(\w+)` (>=|<=|<|>) (\S+)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_SYNTAX = re.compile(r"(?:JSON|MessagePack data) is malformed: (.*) \(byte (\d+)\)")

_KINDS = {"array": "a list", "object": "an object", "int": "a whole number", "float": "a number", "str": "text"}
_KINDS |= {"bool": "a boolean", "null": "null", "bytes": "bytes", "ext": "an extension"}
_BOUNDS = {">=": "at least", "<=": "at most", "<": "below", ">": "above"}


def in_words(err: Exception, root: str) -> str:
    """What is wrong, as `inputs[0].shape is text, but must be a list`; `root` names the whole of what was decoded."""
    if isinstance(err, RecursionError):
        return f"{root} is nested too deeply"
    if isinstance(err, UnicodeDecodeError):
        return f"{root} is not UTF-8 at byte {err.start}"
    match = _PLACE.fullmatch(str(err))
    if not isinstance(err, msgspec.ValidationError) or match is None:
        return f"{root} {_syntax(str(err))}"
    return _fault(_place(match[2], root), match[1])


def no_json(body: bytes, err: Exception, what: str) -> str:
    """Why a body is no JSON."""
    # The decoder also calls it a truncated input when a surrogate pair is.
    half = str(err) == "Input data was truncated" and b"\\u" in body
    why = "it ends too early, or holds half of a surrogate pair" if half else in_words(err, "it")
    return f"{what} is no JSON: {why}"


def _syntax(text: str) -> str:
    if text == "Input data was truncated":
        return "ends too early"
    match = _SYNTAX.fullmatch(text)
    return f"has a fault at byte {match[2]}: {match[1]}" if match else f"cannot be read: {text}"


def _place(path: str | None, root: str) -> str:
    if path is None or path == "$":
        return root
    if path.startswith("key"):
        return f"a key in {root}"
    place = path[2:] if path.startswith("$.") else root + path[1:]
    return f"a value in {place[:-5]}" if place.endswith("[...]") else place


def _fault(place: str, text: str) -> str:
    if match := _KIND.fullmatch(text):
        got = "a number with a fraction" if match[2] == "float" else _KINDS.get(match[2], match[2])
        return f"{place} is {got}, but must be {_any_of(match[1].split(' | '))}"
    if match := _MISSING.fullmatch(text):
        return f"{place} has no {match[1]}"
    if match := _LENGTH.fullmatch(text):
        unit = ("character" if match[1] == "str" else "element") + ("" if match[3] == "1" else "s")
        return f"{place} must be {_any_of([match[1]])} of {_BOUNDS[match[2] or '>=']} {match[3]} {unit}"
    if match := _RANGE.fullmatch(text):
        return f"{place} must be {_any_of([match[1]])}, {_BOUNDS[match[2]]} {match[3]}"
    if text.startswith("Invalid enum value "):
        value = text.removeprefix("Invalid enum value ")[:MAX_SHOWN_CHARS]
        return f"{place} {value} is not known: use one of {', '.join(Datatype)}"
    return f"{place} is not valid: {text[:MAX_SHOWN_CHARS]}"


def _any_of(kinds: Sequence[str]) -> str:
    wide = ["float" if kind == "int" and "float" in kinds else kind for kind in kinds]
    names = list(dict.fromkeys(_KINDS.get(kind, kind) for kind in wide))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
