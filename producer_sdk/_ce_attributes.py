"""The attributes of CloudEvents that a record carries as headers, and what they say of its request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ._ce_types import CONTENT_TYPE, SPEC_VERSION, form_of
from ._limits import MAX_DEADLINE_MS
from .broker import Headers
from .dataref import UNKNOWN_BYTES, DataRef
from .errors import InvalidRequest
from .topics import shown
from .wire import AnyForm, Form, Request

MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024

Attributes = Mapping[str, str]

# A record with one of these is an event; all others mean the same on any record.
_OF_EVENTS = ("ce_specversion", "ce_type", "ce_source")
_NEEDED = (*_OF_EVENTS, "ce_id")
_PASSED_ON = ("ce_correlationid", "ce_traceparent", "ce_tracestate", "traceparent", "tracestate")
_FOLLOWED = frozenset(("ce_expirytime", "ce_dataref", "ce_datasha256", "ce_databytes", CONTENT_TYPE, *_NEEDED))
_KNOWN = _FOLLOWED.union(_PASSED_ON)
_Instant = Annotated[datetime, Meta(tz=True)]


def read_attributes(headers: Headers) -> dict[str, str]:
    """The headers that mean something here, by name; of those that are only passed on, the unreadable are left out.

    Raises:
        InvalidRequest: too many or too large headers, an attribute that is there twice, or is no UTF-8.
    """
    size = sum(len(name) + len(content or b"") for name, content in headers)
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        limits = f"at most {MAX_HEADERS} and {MAX_HEADER_BYTES} bytes"
        raise InvalidRequest(f"the record has {len(headers)} headers of {size} bytes: {limits}")
    attributes: dict[str, str] = {}
    for written, content in headers:
        name = CONTENT_TYPE if written.lower() == CONTENT_TYPE else written
        if name not in _KNOWN:
            continue
        if name in attributes and name in _FOLLOWED:
            raise InvalidRequest(f"the record has the header {name} twice")
        try:
            attributes[name] = (content or b"").decode()
        except UnicodeDecodeError as err:
            if name in _FOLLOWED:
                raise InvalidRequest(f"header {name} is not UTF-8") from err
    return attributes


def is_event(attributes: Attributes) -> bool:
    """Whether the record says that it is a CloudEvent: `ce_id` and extensions alone may be on any record."""
    return any(name in attributes for name in _OF_EVENTS)


def check_event(attributes: Attributes) -> None:
    """Check that a record which is an event has all that events need.

    Raises:
        InvalidRequest: an attribute is missing or empty, or the version of CloudEvents is not known.
    """
    if not is_event(attributes):
        return
    missing = [name.removeprefix("ce_") for name in _NEEDED if not attributes.get(name)]
    if missing:
        raise InvalidRequest(f"the record is no whole CloudEvent: {', '.join(missing)} missing or empty")
    version = attributes["ce_specversion"]
    if version != SPEC_VERSION:
        raise InvalidRequest(f"specversion {shown(version)} of CloudEvents is not known here: send {SPEC_VERSION}")


def read_reference(attributes: Attributes) -> DataRef | None:
    """Where the data is stored; None where the record does not say.

    Raises:
        InvalidRequest: it is not valid.
    """
    uri = attributes.get("ce_dataref")
    if uri is None:
        return None
    size = attributes.get("ce_databytes", "")
    if size and not (size.isascii() and size.isdigit() and len(size) < 19):
        raise InvalidRequest(f"ce_databytes {shown(size)} is not valid: give the size of the object in bytes")
    return DataRef(uri, attributes.get("ce_datasha256", "").lower(), int(size) if size else UNKNOWN_BYTES)


def referred_form(attributes: Attributes) -> AnyForm:
    """The form of a request whose data is elsewhere."""
    return form_of(attributes.get(CONTENT_TYPE, "")) or Form.JSON


def apply(attributes: Attributes, request: Request) -> Request:
    """The request with what the attributes say of it.

    Raises:
        InvalidRequest: an attribute cannot be followed, or says of the data what it is not.
    """
    if is_event(attributes):
        content_type = attributes.get(CONTENT_TYPE, "")
        form = form_of(content_type)
        if form not in (None, request.form):
            raise InvalidRequest(f"datacontenttype is {shown(content_type)}, but the data is {_words(request.form)}")
    if "ce_expirytime" not in attributes:
        return request
    expiry_ms = _epoch_ms(attributes["ce_expirytime"])
    if request.deadline_ms is not None and request.deadline_ms <= expiry_ms:
        return request
    return replace(request, deadline_ms=expiry_ms)


def _words(form: AnyForm) -> str:
    return {Form.JSON: "JSON", Form.MSGPACK: "MessagePack"}[form] if isinstance(form, Form) else form.name


def _epoch_ms(text: str) -> int:
    try:
        moment = msgspec.convert(text, _Instant)
    except msgspec.ValidationError as err:
        raise InvalidRequest(f"ce_expirytime {shown(text)} is not valid: write RFC 3339 with a zone") from err
    return min(max(0, round(moment.timestamp() * 1000)), MAX_DEADLINE_MS)
