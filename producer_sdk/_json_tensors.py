"""Tensor data as JSON arrays: numbers, booleans or strings, flat or nested row-major.

JSON has no NaN or infinity, so those travel as the strings "NaN", "Infinity" and "-Infinity"; and no bytes, so BYTES
elements that are not UTF-8 travel as base64, which the tensor's parameter `content_type` says.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from ._decode_faults import in_words
from .errors import InvalidRequest
from .tensors import Array, Datatype, Tensor, check_size, item_bytes, numpy_dtype, pack_bytes, unpack_bytes
from .topics import shown

BASE64 = "base64"

_FLOATS = frozenset((Datatype.FP16, Datatype.FP32, Datatype.FP64, Datatype.BF16))
_FORMATS: dict[Datatype, str] = dict(
    zip([d for d in Datatype if d not in (Datatype.BYTES, Datatype.BF16)], "?BHIQbhiqefd", strict=True)
)
_WIDE_INTEGERS = frozenset((Datatype.INT64, Datatype.UINT64))
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,19})", re.ASCII)
PART_BYTES = 256 << 10  # of a large array, between which other threads may run
_PART_ELEMENTS = 1 << 15
_encoder = msgspec.json.Encoder()
_NESTED = re.compile(rb"\[[ \t\n\r]*\[")


def read_data(datatype: Datatype, shape: tuple[int, ...], data: Raw, is_base64: bool) -> Tensor:
    """The tensor of a JSON array.

    Raises:
        InvalidRequest: elements of another kind or out of range, or a shape that they do not fill. Nothing is
            allocated for a shape that the text cannot fill.
    """
    text = memoryview(data)
    elements = math.prod(shape)
    check_size(datatype, shape, elements * (item_bytes(datatype) or 4))
    if elements > len(text):
        raise InvalidRequest(f"data is too short for the {elements} elements of shape {list(shape)}")
    packed = None if len(text) <= 4 * PART_BYTES else _read_in_parts(datatype, elements, bytes(text))
    if packed is not None:
        return Tensor(datatype, shape, packed)
    try:
        flat = _read_flat(datatype, shape, text)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise InvalidRequest(in_words(err, "data")) from err
    if len(flat) != elements:
        raise InvalidRequest(f"data has {len(flat)} elements, but shape {list(shape)} takes {elements}")
    return Tensor(datatype, shape, _pack(datatype, flat, is_base64))


def _read_in_parts(datatype: Datatype, elements: int, text: bytes) -> bytes | None:
    """The elements of a large flat array as they lie in a tensor; None where the usual way must say what it is.

    Each part is a short call of the decoder: a thread that reads 100 MB does not hold up the others.
    """
    if datatype is Datatype.BYTES or not text.endswith(b"]") or _NESTED.match(text):
        return None
    packed: list[bytes] = []
    start, last = 1, len(text) - 1
    while start <= last:
        end = text.find(b",", start + PART_BYTES, last)
        end = last if end < 0 else end
        try:
            flat = _read_flat(datatype, (0,), memoryview(b"[%b]" % text[start:end]))
        except (msgspec.MsgspecError, RecursionError):
            return None
        elements -= len(flat)
        if not flat or elements < 0:
            return None
        packed.append(_pack(datatype, flat, False))
        start = end + 1
    return None if elements else b"".join(packed)


def write_large_data(tensor: Tensor) -> Raw | None:
    """The elements of a large tensor as JSON, written in short calls; None for a small one, and for BYTES."""
    size = item_bytes(tensor.datatype)
    step = size * _PART_ELEMENTS
    if not size or len(tensor.data) <= 2 * step:
        return None
    view, parts = memoryview(tensor.data), []
    for at in range(0, len(view), step):
        part = view[at : at + step]
        values, _ = write_data(Tensor(tensor.datatype, (len(part) // size,), part))
        parts.append(_encoder.encode(values)[1:-1])
    return Raw(b"[%b]" % b",".join(parts))


def write_data(tensor: Tensor) -> tuple[list[Any], bool]:
    """The elements in row-major order as JSON takes them, and whether they are base64.

    Raises:
        InvalidRequest: the lengths of BYTES do not fit the data.
    """
    if tensor.datatype is Datatype.BYTES:
        elements = unpack_bytes(tensor.data, math.prod(tensor.shape))
        try:
            return [element.decode() for element in elements], False
        except UnicodeDecodeError:
            return [binascii.b2a_base64(element, newline=False).decode() for element in elements], True
    if tensor.datatype is Datatype.BF16:
        numbers: Array = _widen_bf16(np.frombuffer(tensor.data, "<u2"))
    else:
        numbers = np.frombuffer(tensor.data, numpy_dtype(tensor.datatype))
    values: list[Any] = numbers.tolist()
    # A sum is finite where all are, and may not be where it is too large: then each is looked at.
    if tensor.datatype in _FLOATS and not math.isfinite(sum(values)):
        values = [spelled(value) for value in values]
    return values, False


def spelled(value: float) -> float | str:
    """The number, or the string that stands for it where JSON has none."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _read_flat(datatype: Datatype, shape: tuple[int, ...], text: memoryview) -> list[Any]:
    """The elements in row-major order; strings that spell numbers are numbers."""
    if not shape and text[0] != ord("["):
        text = memoryview(b"".join((b"[", text, b"]")))
    depth = len(shape) if _NESTED.match(text) else 1
    if not depth:
        raise InvalidRequest("data is nested, but a tensor of shape [] is one value")
    try:
        return _flatten(_decoder(datatype, depth, False).decode(text), shape, depth)
    except msgspec.ValidationError:
        elements = _flatten(_decoder(datatype, depth, True).decode(text), shape, depth)
        return [_number(datatype, element) if isinstance(element, str) else element for element in elements]


@lru_cache(maxsize=512)
def _decoder(datatype: Datatype, depth: int, spells_numbers: bool) -> msgspec.json.Decoder[list[Any]]:
    """A decoder of lists nested `depth` deep; `spells_numbers` also takes strings for numbers that JSON lacks."""
    kind: Any = int
    if datatype in _FLOATS:
        kind = float | str if spells_numbers else float
    elif datatype in _WIDE_INTEGERS:
        kind = int | str if spells_numbers else int
    elif datatype is Datatype.BOOL or datatype is Datatype.BYTES:
        kind = bool if datatype is Datatype.BOOL else str
    for _ in range(depth):
        kind = list[kind]
    return msgspec.json.Decoder(kind)


def _flatten(level: list[Any], shape: tuple[int, ...], depth: int) -> list[Any]:
    for place, size in enumerate(shape if depth > 1 else ()):
        lengths = set(map(len, level)) if place else {len(level)}
        if lengths != {size} and level:
            raise InvalidRequest(f"the nesting of data does not agree with shape {list(shape)}")
        if place:
            level = list(chain.from_iterable(level))
    return level


def _number(datatype: Datatype, text: str) -> int | float:
    if datatype in _WIDE_INTEGERS and _DECIMAL.fullmatch(text):
        return int(text)
    if datatype in _FLOATS and text in _SPECIAL:
        return _SPECIAL[text]
    raise InvalidRequest(f"the string {shown(text)} is no {datatype} element")


def _from_base64(texts: list[str]) -> list[bytes]:
    try:
        return [binascii.a2b_base64(text, strict_mode=True) for text in texts]
    except ValueError as err:
        raise InvalidRequest(f"an element is not base64 (standard alphabet, padded): {err}") from err


def _pack(datatype: Datatype, flat: list[Any], is_base64: bool) -> bytes:
    """The elements as they lie in a tensor; numbers are rounded once, half to even."""
    if datatype is Datatype.BYTES:
        return pack_bytes(_from_base64(flat) if is_base64 else [text.encode() for text in flat])
    return pack_numbers(datatype, flat)


def pack_numbers(datatype: Datatype, flat: list[Any]) -> bytes:
    """Numbers of the kind that the datatype takes, as they lie in a tensor.

    Raises:
        InvalidRequest: one is out of its range.
    """
    if datatype is Datatype.BF16:
        return _pack_bf16(flat)
    try:
        return struct.pack(f"<{len(flat)}{_FORMATS[datatype]}", *flat)
    except (struct.error, OverflowError) as err:
        raise InvalidRequest(f"an element is out of the range of {datatype}, {_range_of(datatype)}") from err


def _range_of(datatype: Datatype) -> str:
    dtype = numpy_dtype(datatype)
    if dtype.kind == "f":
        return f"-{np.finfo(dtype).max:g} to {np.finfo(dtype).max:g}"
    return f"{np.iinfo(dtype).min} to {np.iinfo(dtype).max}"


def _pack_bf16(flat: list[float]) -> bytes:
    """Through float32, where an inexact value may look like a tie: it is moved off the tie before rounding."""
    wide = np.array(flat, np.float64)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    bits = single.view(np.uint32)
    tie, exact, seen = bits & 0xFFFF == 0x8000, np.abs(wide), np.abs(single)
    bits = bits + (tie & (exact > seen)) - (tie & (exact < seen))
    rounded: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    if not np.isfinite(_widen_bf16(rounded)[np.isfinite(wide)]).all():
        raise InvalidRequest("an element is out of the range of BF16")
    return rounded.tobytes()


def _widen_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)
