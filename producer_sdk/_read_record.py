"""A record as every client gives it."""

from __future__ import annotations

from msgspec import Struct

from .broker import Headers


class ReadRecord(Struct, frozen=True, gc=False):
    """Implements `broker.Record`; `timestamp` is epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
