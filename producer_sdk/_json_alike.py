"""Bodies that differ in the numbers of their one tensor alone: what surrounds those is read once for all.

A client sends one model the same body again and again, with other numbers. What lies before and behind them is then
the same, byte for byte, and has passed all checks. Everything else is read in the usual way, which alone says what is
valid.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ._json_objects import InferBody
from ._json_tensors import PART_BYTES, pack_numbers
from .errors import InvalidRequest
from .tensors import Datatype, Tensor

MAX_KINDS = 256
MAX_DESCRIPTION_BYTES = 4096  # of a body that is kept
_DATA_KEY = b'"data"'
_numbers = (("FP", msgspec.json.Decoder(list[float])), ("INT", msgspec.json.Decoder(list[int])))


class Alike(Struct, frozen=True):
    """A body without the data of its one tensor, which is a flat list of numbers."""

    asked: InferBody
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    elements: int
    numbers: msgspec.json.Decoder[Any]


class _Seen(Enum):
    NEVER = 0
    ONCE = 1  # ids that are never the same are not worth the learning


Learn = Callable[[bytes, bytes], Alike | None]


class AlikeBodies:
    """Those that were read. `learn` reads what lies before and behind some data; None: they are not such bodies."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._kinds: dict[tuple[bytes, bytes], Alike | _Seen | None] = {}

    def read(self, body: bytes) -> InferBody | None:
        """A body like one before; None: read it in the usual way."""
        key_at = body.find(_DATA_KEY, 0, MAX_DESCRIPTION_BYTES)
        at = body.find(b"[", key_at)
        end = body.find(b"]", at) + 1
        if key_at < 0 or not 0 < at < end or len(body) > PART_BYTES or at + len(body) - end > MAX_DESCRIPTION_BYTES:
            return None
        alike = self._kind(body[:at], body[end:])
        if alike is None:
            return None
        try:
            numbers = alike.numbers.decode(memoryview(body)[at:end])
            if len(numbers) != alike.elements:
                return None
            tensor = Tensor(alike.datatype, alike.shape, pack_numbers(alike.datatype, numbers))
        except (msgspec.MsgspecError, InvalidRequest):
            return None
        return replace(alike.asked, inputs={alike.name: tensor})

    def _kind(self, begin: bytes, end: bytes) -> Alike | None:
        kind = self._kinds.get((begin, end), _Seen.NEVER)
        if kind is _Seen.NEVER:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            self._kinds[begin, end] = _Seen.ONCE
        elif kind is _Seen.ONCE:
            kind = self._kinds[begin, end] = self._learn(begin, end)
        return kind if isinstance(kind, Alike) else None


def numbers_of(datatype: Datatype) -> msgspec.json.Decoder[Any] | None:
    """What reads its elements from a flat list; None where they may be anything but numbers."""
    return next((decoder for name, decoder in _numbers if name in datatype), None)
