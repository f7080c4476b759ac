"""A record's value and headers -> what it asks or answers. Both forms: the first byte tells MessagePack from JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ._limits import MAX_DEADLINE_MS
from .broker import Headers
from .errors import HeadraceError, InvalidRequest
from .oip import decode_json_reply, decode_json_request
from .topics import REQUEST_ID, shown
from .wire import Refused, Reply, Request, Undecodable, decode_reply, decode_request

MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024

# An object, white space before one, or a byte order mark: none of them can begin a MessagePack array.
JSON_STARTS = frozenset(b"{ \t\r\n\xef")
_ATTRIBUTES = frozenset(("ce_id", "ce_expirytime", "ce_dataref", "content-type"))
_Instant = Annotated[datetime, Meta(tz=True)]


def decode_record(value: bytes | None, headers: Headers, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    """Read the record of a request topic.

    CloudEvents attributes in headers (binary mode) are applied: `ce_id` where the body has no id, `ce_expirytime` as
    deadline, the earlier one where the body has one too. Other headers mean nothing here.

    Raises:
        Undecodable: nobody can be answered.
    """
    if not value:
        raise Undecodable("the record has no value", id=fallback_id)
    if headers:
        return _decode_with_headers(value, headers, fallback_id, timestamp_ms)
    if value[0] in JSON_STARTS:
        return decode_json_request(value, fallback_id, timestamp_ms)
    return decode_request(value, fallback_id)


def decode_reply_record(value: bytes | None) -> Reply | HeadraceError:
    """Read the record of a reply topic; an error reply comes back as the typed error.

    Raises:
        Undecodable: the value is no reply.
    """
    if not value:
        raise Undecodable("the record has no value")
    return decode_json_reply(value) if value[0] in JSON_STARTS else decode_reply(value)


def _decode_with_headers(value: bytes, headers: Headers, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    attributes: dict[str, str] = {}
    fault: InvalidRequest | None = None
    try:
        attributes = _read_attributes(headers)
    except InvalidRequest as err:
        fault = err
    event_id = attributes.get("ce_id")
    is_usable = event_id is not None and REQUEST_ID.fullmatch(event_id) is not None
    request = decode_record(value, (), event_id if is_usable and event_id else fallback_id, timestamp_ms)
    if isinstance(request, Refused):
        return request
    try:
        if fault is not None:
            raise fault
        if event_id is not None and not is_usable and request.id == fallback_id:
            raise InvalidRequest(f"ce_id {shown(event_id)} is not valid: use 1 to 128 of A-Z a-z 0-9 . _ : -")
        return _apply(attributes, request)
    except InvalidRequest as err:
        err.id = request.id
        return Refused(request.id, err, request.form, request.reply_to)


def _read_attributes(headers: Headers) -> dict[str, str]:
    """The headers that mean something here.

    Raises:
        InvalidRequest: too many or too large headers, an attribute that is there twice, or is no UTF-8.
    """
    size = sum(len(name) + len(content or b"") for name, content in headers)
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        limits = f"at most {MAX_HEADERS} and {MAX_HEADER_BYTES} bytes"
        raise InvalidRequest(f"the record has {len(headers)} headers of {size} bytes: {limits}")
    attributes: dict[str, str] = {}
    for name, content in headers:
        if name not in _ATTRIBUTES:
            continue
        if name in attributes:
            raise InvalidRequest(f"the record has the header {name} twice")
        try:
            attributes[name] = (content or b"").decode()
        except UnicodeDecodeError as err:
            raise InvalidRequest(f"header {name} is not UTF-8") from err
    return attributes


def _apply(attributes: dict[str, str], request: Request) -> Request:
    if "ce_dataref" in attributes:
        raise InvalidRequest("the record refers to its data by ce_dataref: claim checks are not taken, send the data")
    if attributes.get("content-type", "").lower().startswith("application/cloudevents"):
        raise InvalidRequest("the record is a CloudEvent in structured mode: send it in binary mode")
    if "ce_expirytime" not in attributes:
        return request
    expiry_ms = _epoch_ms(attributes["ce_expirytime"])
    if request.deadline_ms is not None and request.deadline_ms <= expiry_ms:
        return request
    return replace(request, deadline_ms=expiry_ms)


def _epoch_ms(text: str) -> int:
    try:
        moment = msgspec.convert(text, _Instant)
    except msgspec.ValidationError as err:
        raise InvalidRequest(f"ce_expirytime {shown(text)} is not valid: write RFC 3339 with a zone") from err
    return min(max(0, round(moment.timestamp() * 1000)), MAX_DEADLINE_MS)
