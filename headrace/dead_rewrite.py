"""A request with another model version, or without its deadline, all other bytes as they are. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from producer_sdk.broker import Headers
from producer_sdk.forms import request_value
from producer_sdk.wire import Form, Request

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DEADLINE_HEADER = "ce_expirytime"
# Places in the MessagePack envelope, docs/wire.md section 4.
_DEADLINE_AT, _VERSION_AT = 2, 5
_NIL = Raw(b"\xc0")
_elements = msgspec.msgpack.Decoder(list[Raw])
_fields = msgspec.json.Decoder(dict[str, Raw])


def with_version(value: bytes, form: Form, version: str) -> bytes:
    """The request asking for that version of the model; `value` must be one that can be decoded."""
    return _msgpack(value, {_VERSION_AT: _packed(version)}) if form is Form.MSGPACK else _json(value, version=version)


def without_deadline(value: bytes, form: Form) -> bytes:
    """The request without a deadline in its body; `value` must be one that can be decoded."""
    return _msgpack(value, {_DEADLINE_AT: _NIL}) if form is Form.MSGPACK else _json(value, deadline_s=None)


def written_anew(request: Request, version: str | None, now_ms: int, *, drop_deadline: bool) -> bytes:
    """The request of a codec, changed and written anew: what that codec does not know of it is lost.

    A relative deadline counts from `now_ms`. Raises InvalidRequest: it cannot be written.
    """
    deadline_ms = None if drop_deadline else request.deadline_ms
    changed = replace(request, deadline_ms=deadline_ms, version=version or request.version)
    return request_value(changed, deadline_s=None if deadline_ms is None else (deadline_ms - now_ms) / 1000)


def headers_without_deadline(headers: Headers) -> list[tuple[str, bytes]]:
    return [(name, content) for name, content in headers if name != DEADLINE_HEADER]


def _packed(text: str) -> Raw:
    return Raw(msgspec.msgpack.encode(text))


def _msgpack(value: bytes, elements: Mapping[int, Raw]) -> bytes:
    whole = _elements.decode(value)
    for place, element in elements.items():
        whole += [_NIL] * (place + 1 - len(whole))
        whole[place] = element
    return msgspec.msgpack.encode(whole)


def _json(value: bytes, **parameters: str | None) -> bytes:
    """With these options among the parameters; None takes one out."""
    body = _fields.decode(value.removeprefix(BYTE_ORDER_MARK))
    known = msgspec.json.decode(body.get("parameters", b"null"), type=dict[str, Raw] | None) or {}
    for name, text in parameters.items():
        known.pop(name, None)
        if text is not None:
            known[name] = Raw(msgspec.json.encode(text))
    return msgspec.json.encode(body | {"parameters": Raw(msgspec.json.encode(known))})
