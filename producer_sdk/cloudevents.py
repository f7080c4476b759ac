"""CloudEvents 1.0 in Kafka: records in structured mode put into binary mode, and the headers that make a reply one.

Pure. records.py reads requests with it, workers write replies with it. docs/cloudevents.md tells people.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from ._ce_attributes import is_event, read_attributes
from ._ce_structured import attributes_of, check_event_keys, data_of, is_structured, read_event
from ._ce_types import CONTENT_TYPE, PREFIX, SPEC_VERSION, content_type_of
from .broker import Headers
from .dataref import UNKNOWN_BYTES, DataRef
from .errors import InvalidRequest
from .wire import AnyForm

REPLY_TYPE = "headrace.reply.v1"
ERROR_TYPE = "headrace.error.v1"
_REFERENCE = ("ce_dataref", "ce_datasha256", "ce_databytes")
_TRACES = ("ce_traceparent", "ce_tracestate", "traceparent", "tracestate")


class Cause(Struct, frozen=True):
    """What a record says that a reply to it takes up, empty where it says nothing.

    Attributes:
        is_event: it is a CloudEvent.
        id, source: of the event; together they are its own alone.
        correlation: what it is one part of, in the words of who sent it.
        traces: headers of distributed tracing, as they were.
    """

    is_event: bool = False
    id: str = ""
    source: str = ""
    correlation: str = ""
    traces: tuple[tuple[str, bytes], ...] = ()


NO_CAUSE = Cause()


def as_binary(value: bytes, headers: Headers) -> tuple[bytes, Headers]:
    """Value and headers of a record, in binary mode where it was in structured mode.

    Raises:
        Undecodable: it should be a structured event, and is no JSON object.
        InvalidRequest: it is in a format that is not taken, or an attribute or the data cannot be read.
    """
    if not is_structured(headers):
        return value, headers
    event = read_event(value)
    check_event_keys(value, event)
    return data_of(event), attributes_of(event, headers)


def cause_of(value: bytes | None, headers: Headers) -> Cause:
    """What a reply to this record takes up. Never raises: of what cannot be read nothing is taken."""
    try:
        if is_structured(headers):
            headers = attributes_of(read_event(value or b""), headers)
        attributes = read_attributes(headers)
    except InvalidRequest:
        return NO_CAUSE
    return Cause(
        is_event(attributes),
        attributes.get("ce_id", ""),
        attributes.get("ce_source", ""),
        attributes.get("ce_correlationid", ""),
        tuple((name, attributes[name].encode()) for name in _TRACES if attributes.get(name)),
    )


def reply_headers(
    cause: Cause, request_id: str, source: str, form: AnyForm, *, is_error: bool, at_s: float
) -> list[tuple[str, bytes]]:
    """The headers that make a reply an event in binary mode.

    Its id follows from the request's alone, so that a reply which comes twice is the same event, and one that answers
    an event of another source another. `source` names the model, `at_s` is the time in seconds since 1970.
    """
    is_unique = cause.is_event and cause.id and cause.source
    attributes = {
        "specversion": SPEC_VERSION,
        "id": f"{cause.source}#{cause.id}" if is_unique else request_id,
        "source": source,
        "type": ERROR_TYPE if is_error else REPLY_TYPE,
        "time": datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "correlationid": cause.correlation or request_id,
        "causationid": cause.id or request_id,
    }
    headers = [(PREFIX + name, text.encode()) for name, text in attributes.items()]
    return [*headers, (CONTENT_TYPE, content_type_of(form).encode()), *cause.traces]


def retold(headers: Headers, *, is_error: bool, ref: DataRef | None = None) -> Headers:
    """The headers of a reply that says something else now, or whose content is stored at `ref`.

    They are as they were where it is no event.
    """
    if not any(name == "ce_specversion" for name, _ in headers):
        return headers
    facts = {"type": ERROR_TYPE if is_error else REPLY_TYPE}
    if ref is not None:
        facts |= {"dataref": ref.uri, "datasha256": ref.sha256}
        facts["databytes"] = "" if ref.nbytes == UNKNOWN_BYTES else str(ref.nbytes)
    kept = [(name, content) for name, content in headers if name not in ("ce_type", *_REFERENCE)]
    return [*kept, *((PREFIX + name, text.encode()) for name, text in facts.items() if text)]
