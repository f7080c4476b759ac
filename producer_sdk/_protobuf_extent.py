"""Large protobuf messages are looked over before they are parsed: of small parts each takes many times its bytes."""

from __future__ import annotations

from .errors import InvalidRequest

UNCHECKED_BYTES = 1 << 20  # what parsing makes of these is bearable
MAX_PARSED_BYTES = 16 << 20
MAX_FIELDS = 1024
_VARINT, _EIGHT, _COUNTED, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}


def check_extent(value: bytes, raw_field: int) -> None:
    """Check how many fields a message has, and how many bytes in all but its raw contents, which parsing only copies.

    Raises:
        InvalidRequest: too many, or it is no message.
    """
    at, fields, raw_bytes = 0, 0, 0
    try:
        while at < len(value):
            key, start = _varint(value, at)
            at = _behind(value, start, key & 7)
            fields += 1
            raw_bytes += at - start if key >> 3 == raw_field else 0
            if fields > MAX_FIELDS:
                raise InvalidRequest(f"it has more than {MAX_FIELDS} fields")
    except IndexError as err:
        raise InvalidRequest("it is no protobuf message") from err
    parsed_bytes = len(value) - raw_bytes
    if parsed_bytes > MAX_PARSED_BYTES:
        raise InvalidRequest(
            f"{parsed_bytes} of its bytes are not raw contents; at most {MAX_PARSED_BYTES} are read: send tensors raw"
        )


def _behind(value: bytes, at: int, kind: int) -> int:
    """Where the content of a field ends."""
    if kind == _VARINT:
        return _varint(value, at)[1]
    if kind == _COUNTED:
        size, at = _varint(value, at)
        return at + size
    if kind not in _FIXED:
        raise InvalidRequest("it is no protobuf message")
    return at + _FIXED[kind]


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, and where it ends; raises IndexError where the bytes end before it."""
    number = 0
    for place in range(10):
        byte = value[at + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at + place + 1
    raise InvalidRequest("it is no protobuf message")
