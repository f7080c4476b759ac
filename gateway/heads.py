"""Heads of requests: what one says, and those that came before, which no parser needs to read again."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import httptools

from producer_sdk.errors import InvalidRequest

from .route import Target, find_target

MOST_REMEMBERED_BYTES = 256
MOST_HEAD_BYTES = 2048  # of a head that is remembered
MOST_HEADS = 512
_LINE_BYTES = len(b": \r\n")  # of a header, beside its name and value
_END = b"\r\n\r\n"
# They change what the parser makes of what follows, or how the connection goes on.
_NOT_PLAIN = frozenset((b"transfer-encoding", b"upgrade", b"connection", b"proxy-connection", b"expect", b"trailer"))
_KEPT = (b"connection", b"keep-alive")  # what holds without it too


class Head(NamedTuple):
    """A request line and headers. `target` is None where the path cannot be read."""

    method: str
    raw_path: bytes
    http_version: str
    headers: list[tuple[bytes, bytes]]
    target: Target | None


def size_of(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """Bytes of a head."""
    return len(url) + sum(len(name) + len(value) + _LINE_BYTES for name, value in headers)


def read_head(method: str, url: bytes, http_version: str, headers: list[tuple[bytes, bytes]]) -> Head:
    """Raises, as the parser's callbacks may: the request line asks for no path, or for one that is no ASCII."""
    raw_path = _path_of(url) if len(url) <= MOST_REMEMBERED_BYTES else _read_path(url)
    try:
        target = find_target(raw_path)
    except InvalidRequest:
        target = None
    return Head(method, raw_path, http_version, headers, target)


class KnownHeads:
    """Heads by their bytes, each with how many bytes of body follow it.

    What the parser makes of the same bytes, between two requests of a connection, is always the same.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, tuple[Head, int]] = {}

    def split(self, data: bytes) -> tuple[Head, bytes, int] | None:
        """Head and body of what is one request, if its head is known, and how many bytes of the body are to come."""
        at = data.find(_END, 0, MOST_HEAD_BYTES) + len(_END)
        known = self._heads.get(data[:at])
        if known is None or at + known[1] < len(data):
            return None
        return known[0], data[at:], at + known[1] - len(data)

    def learn(self, data: bytes, head: Head, body_bytes: int) -> None:
        """Remember the head of what the parser took for one request, or its begin, with so many bytes of body."""
        at = data.find(_END, 0, MOST_HEAD_BYTES) + len(_END)
        if at < len(_END) or len(data) - at != body_bytes or head.method != "POST" or head.http_version != "1.1":
            return
        lengths = [value for name, value in head.headers if name == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or int(lengths[0]) < body_bytes:
            return
        if any(name in _NOT_PLAIN and (name, value.lower()) != _KEPT for name, value in head.headers):
            return
        if len(self._heads) >= MOST_HEADS:
            self._heads.clear()
        self._heads[data[:at]] = head, int(lengths[0])


def _read_path(url: bytes) -> bytes:
    path: bytes = httptools.parse_url(url).path
    path.decode("ascii")
    return path


_path_of = lru_cache(maxsize=1024)(_read_path)
