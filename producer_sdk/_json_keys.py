"""Keys that an object holds twice: JSON readers disagree which one counts, and msgspec takes the last silently."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ._decode_faults import in_words, no_json
from .errors import InvalidRequest
from .topics import shown

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEY_END = re.compile(rb'"[ \t\n\r]*:')
_STRING = re.compile(rb'"([^"]*)"([ \t\n\r]*:)?')
_BRACE = re.compile(rb"[{}]")

# Stand-ins for escapes while walking: control bytes cannot occur in the strings of valid JSON.
_BACKSLASH, _QUOTE = b"\x01\x01", b"\x01\x02"


_objects = msgspec.json.Decoder(dict[str, Any])


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body, whose values may be anything; a BOM before it is skipped.

    Raises:
        InvalidRequest: it is none, or an object in it holds a key twice.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    try:
        if not body.isascii():
            body.decode()
        fields = _objects.decode(body)
    except msgspec.ValidationError as err:
        raise InvalidRequest(in_words(err, "the body")) from err
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        raise InvalidRequest(no_json(body, err, "the body")) from err
    check_keys(body, len(fields))
    return fields


def check_keys(body: bytes, known: int) -> None:
    """Check that no object of a body, which must be valid JSON, holds a key twice.

    `known` is the number of keys that decoding found. As long as it is the number of colons, or of keys by a quick
    count, none was lost; only else (unknown keys, texts that look like keys) are the objects walked.

    Raises:
        InvalidRequest: naming the key.
    """
    colons = len(body) - len(body.replace(b":", b""))  # a tenth of the time of bytes.count
    if colons != known and len(_KEY_END.findall(body)) != known:
        _walk(body)


def _walk(body: bytes) -> None:
    if b"\\" in body:
        body = body.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    open_objects: list[set[bytes]] = []
    end = 0
    for string in _STRING.finditer(body):
        start = string.start()
        if start - end > 1 or body[end] != ord(","):
            _cross(body, end, start, open_objects)
        end = string.end()
        if string[2]:
            _enter(string[1], open_objects[-1])


def _cross(body: bytes, start: int, end: int, open_objects: list[set[bytes]]) -> None:
    """Follow the braces between two strings."""
    if body.find(b"{", start, end) < 0 and body.find(b"}", start, end) < 0:
        return
    for brace in _BRACE.findall(body, start, end):
        if brace == b"{":
            open_objects.append(set())
        else:
            open_objects.pop()


def _enter(key: bytes, keys: set[bytes]) -> None:
    """Add a key to those of its object; two spellings of one key are equal."""
    if b"\\" in key or b"\x01" in key:
        escaped = key.replace(_QUOTE, b'\\"').replace(_BACKSLASH, b"\\\\")
        key = str(json.loads(b'"%b"' % escaped)).encode("utf-8", "surrogatepass")
    if key in keys:
        name = key.decode("utf-8", "replace")
        raise InvalidRequest(f"an object holds the key {shown(name)} twice")
    keys.add(key)
