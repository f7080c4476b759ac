"""A path as bytes -> which endpoint, model and version. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from producer_sdk.errors import InvalidRequest

MOST_REMEMBERED_BYTES = 256
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Target(NamedTuple):
    """What a path names: `template` is the path with model and version written as `{m}`, the key of the endpoints."""

    template: str
    model: str | None = None
    version: str | None = None


def find_target(raw_path: bytes) -> Target:
    """Read a path as it stood in the request line.

    Raises:
        InvalidRequest: its percent-encoding or UTF-8 is broken.
    """
    return _remembered(raw_path) if len(raw_path) <= MOST_REMEMBERED_BYTES else _read(raw_path)


def _read(raw_path: bytes) -> Target:
    segments = [_decode(segment) for segment in raw_path.split(b"/")]
    if segments[-1] == "" and len(segments) > 2:
        segments.pop()
    if segments[1:3] != ["v2", "models"] or len(segments) < 4:
        return Target("/".join(segments) or "/")
    model, version, rest = segments[3], None, segments[4:]
    if len(rest) >= 2 and rest[0] == "versions":
        version, rest = rest[1], rest[2:]
    return Target("/".join(["/v2/models/{m}", *rest]), model, version)


_remembered = lru_cache(maxsize=1024)(_read)


def _decode(segment: bytes) -> str:
    if _BAD_ESCAPE.search(segment):
        raise InvalidRequest("the path has a '%' that is not followed by two hexadecimal digits")
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as err:
        raise InvalidRequest("the path is not UTF-8") from err
    # An escaped slash is part of a name; no name here holds one, so it must not reach the template as a separator.
    return text.replace("/", "\N{FULLWIDTH SOLIDUS}")
