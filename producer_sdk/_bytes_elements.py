"""BYTES elements: each lies behind its 4-byte little-endian length."""

from __future__ import annotations

import struct
from itertools import chain
from typing import Any

from .errors import InvalidRequest

Buffer = bytes | bytearray | memoryview

_LENGTH = struct.Struct("<I")


def pack_bytes(elements: list[Any]) -> bytes:
    """BYTES elements (bytes, or str as UTF-8), each behind its 4-byte little-endian length.

    Raises:
        InvalidRequest: an element is neither, is text that UTF-8 cannot hold, or has 4 GiB or more.
    """
    blobs = [element if type(element) is bytes else _as_bytes(element, place) for place, element in enumerate(elements)]
    try:
        return b"".join(chain.from_iterable(zip(map(_LENGTH.pack, map(len, blobs)), blobs, strict=True)))
    except struct.error as err:
        raise InvalidRequest("a BYTES element has 4 GiB or more, which its length cannot say") from err


def _as_bytes(element: object, place: int) -> bytes:
    if isinstance(element, str):
        try:
            return element.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as err:
            raise InvalidRequest(f"BYTES element {place} is text that UTF-8 cannot hold: {err}") from err
    if not isinstance(element, bytes | bytearray | memoryview):
        raise InvalidRequest(f"BYTES element {place} is {type(element).__name__}: give bytes or str")
    return bytes(element)


def unpack_bytes(data: Buffer, count: int) -> list[bytes]:
    """The `count` elements of BYTES data.

    Raises:
        InvalidRequest: the lengths do not lead exactly to the end of the data.
    """
    elements: list[bytes] = []
    at, end = 0, len(data)
    for _ in range(count):
        stop = at + 4
        if stop <= end:
            stop += _LENGTH.unpack_from(data, at)[0]
        if stop > end:
            raise InvalidRequest(f"BYTES data ends within element {len(elements)} of {count}")
        elements.append(bytes(data[at + 4 : stop]))
        at = stop
    if at != end:
        raise InvalidRequest(f"{end - at} bytes follow the last of {count} BYTES elements")
    return elements
