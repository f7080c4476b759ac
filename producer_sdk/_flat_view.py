"""Reads FlatBuffers of anybody: every offset is checked before it is followed. FlatBuffers' own runtime checks none."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .errors import InvalidRequest

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_HEAD_BYTES = 8  # the root's offset, then the identifier


class Broken(InvalidRequest):
    """The bytes are no FlatBuffer of this schema."""


class Table:
    """One table in a buffer, whose extent and fields lie within it. Data that it gives are views, not copies.

    Strings are copies, and many fields may refer to one: all that are read from a buffer are no longer than it.
    """

    __slots__ = ("_at", "_bytes", "_fields", "_size", "_text_left", "_vtable")

    def __init__(self, whole: memoryview, at: int, text_left: list[int]) -> None:
        self._bytes, self._at, self._text_left = whole, at, text_left
        vtable = at - _number(whole, _I32, at)
        length = _number(whole, _U16, vtable)
        if length < 4 or length % 2 or vtable + length > len(whole):
            raise Broken("a vtable lies outside")
        self._vtable, self._fields = vtable, (length - 4) // 2
        self._size = _number(whole, _U16, vtable + 2)
        if self._size < 4 or at + self._size > len(whole):
            raise Broken("a table lies outside")

    def scalar(self, field: int, kind: struct.Struct, default: int | float = 0) -> int | float:
        """The number in a field."""
        at = self._place(field, kind.size)
        if at is None:
            return default
        value: int | float = kind.unpack_from(self._bytes, at)[0]
        return value

    def text(self, field: int) -> str | None:
        """The string of a field; None where it is not there."""
        at = self._target(field)
        return None if at is None else self._text(at)

    def vector(self, field: int, item_bytes: int) -> memoryview | None:
        """The bytes of a vector of numbers; None where it is not there."""
        at = self._target(field)
        return None if at is None else _vector(self._bytes, at, item_bytes)

    def table(self, field: int) -> Table | None:
        at = self._target(field)
        return None if at is None else Table(self._bytes, at, self._text_left)

    def tables(self, field: int, most: int) -> Iterator[Table]:
        """Those of a vector of tables; raises Broken where there are more than `most`."""
        return (Table(self._bytes, at, self._text_left) for at in self._targets(field, most))

    def texts(self, field: int, most: int) -> list[str]:
        """Those of a vector of strings; raises Broken where there are more than `most`."""
        return [self._text(at) for at in self._targets(field, most)]

    def _text(self, at: int) -> str:
        content = _vector(self._bytes, at, 1)
        self._text_left[0] -= len(content)
        if self._text_left[0] < 0:
            raise Broken("its strings overlap")
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError as err:
            raise Broken("a string is not UTF-8") from err

    def _place(self, field: int, nbytes: int) -> int | None:
        if field >= self._fields:
            return None
        offset = _number(self._bytes, _U16, self._vtable + 4 + 2 * field)
        if offset == 0:
            return None
        if offset < 4 or offset + nbytes > self._size:
            raise Broken("a field lies outside its table")
        return self._at + offset

    def _target(self, field: int) -> int | None:
        at = self._place(field, 4)
        return None if at is None else at + _number(self._bytes, _U32, at)

    def _targets(self, field: int, most: int) -> list[int]:
        start = self._target(field)
        if start is None:
            return []
        count = _number(self._bytes, _U32, start)
        if count > most:
            raise Broken(f"a vector has {count} entries: at most {most}")
        places = range(start + 4, start + 4 + 4 * count, 4)
        return [at + _number(self._bytes, _U32, at) for at in places]


def root(value: bytes, identifier: bytes) -> Table:
    """The table that a buffer with this identifier holds.

    Raises:
        Broken: it is no such buffer.
    """
    if value[4:_HEAD_BYTES] != identifier:
        raise Broken(f"its identifier is {value[4:_HEAD_BYTES]!r}, not {identifier!r}")
    whole = memoryview(value)
    return Table(whole, _number(whole, _U32, 0), [len(value)])


def _number(whole: memoryview, kind: struct.Struct, at: int) -> int:
    if not 0 <= at <= len(whole) - kind.size:
        raise Broken("an offset leads outside")
    number: int = kind.unpack_from(whole, at)[0]
    return number


def _vector(whole: memoryview, at: int, item_bytes: int) -> memoryview:
    start, nbytes = at + 4, _number(whole, _U32, at) * item_bytes
    if start + nbytes > len(whole):
        raise Broken("a vector lies outside")
    return whole[start : start + nbytes]
