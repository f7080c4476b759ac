"""A record's value and headers -> what it asks or answers.

The first byte tells MessagePack from JSON. Where the header `content-type` names a codec, that one reads the value.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ._ce_attributes import MAX_HEADER_BYTES as MAX_HEADER_BYTES
from ._ce_attributes import MAX_HEADERS as MAX_HEADERS
from ._ce_attributes import apply, check_event, read_attributes, read_reference, referred_form
from ._ce_structured import attributes_of, check_event_keys, data_of, is_structured, read_event
from ._ce_types import codec_for, is_self_told, told_type
from .broker import Headers
from .codecs import decode_reply_by, decode_request_by, not_known
from .errors import HeadraceError, InvalidRequest
from .oip import decode_json_reply, decode_json_request
from .topics import REQUEST_ID, shown
from .wire import AnyForm, Codec, Form, Refused, Reply, Request, Undecodable, decode_reply, decode_request

# An object, white space before one, or a byte order mark: none of them can begin a MessagePack array.
JSON_STARTS = frozenset(b"{ \t\r\n\xef")


def decode_record(value: bytes | None, headers: Headers, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    """Read the record of a request topic.

    A CloudEvent may be in binary or in structured mode. Its attributes are applied: `ce_id` where the body has no id,
    `ce_expirytime` as deadline, the earlier one where the body has one too, `ce_dataref` where there is no value. Other
    headers but `content-type` mean nothing here.

    Raises:
        Undecodable: nobody can be answered.
    """
    if headers:
        return _decode_with_headers(value, headers, fallback_id, timestamp_ms)
    if not value:
        raise Undecodable("the record has no value", id=fallback_id)
    if value[0] in JSON_STARTS:
        return decode_json_request(value, fallback_id, timestamp_ms)
    return decode_request(value, fallback_id)


def decode_stored(value: bytes, form: AnyForm, fallback_id: str) -> Request | Refused:
    """Read the object that a request of this form refers to; of MessagePack and JSON it may be the other one.

    Raises:
        Undecodable: it holds no request.
    """
    if isinstance(form, Form):
        return decode_record(value, (), fallback_id, -1)
    return _decoded_by(form, value, fallback_id, -1)


def decode_reply_record(
    value: bytes | None, headers: Headers = (), *, as_tensors: bool = False
) -> Reply | HeadraceError:
    """Read the record of a reply topic; an error reply comes back as the typed error.

    `as_tensors`: a result may come as `TensorReply`.

    Raises:
        Undecodable: the value is no reply.
    """
    if not value:
        raise Undecodable("the record has no value")
    if headers and (found := decode_codec_reply(value, headers)) is not None:
        return found
    return decode_json_reply(value) if value[0] in JSON_STARTS else decode_reply(value, as_tensors=as_tensors)


def decode_codec_reply(value: bytes, headers: Headers) -> Reply | HeadraceError | None:
    """The reply, where a codec reads it; else None.

    Raises:
        Undecodable: the value is no reply, or its codec is missing here.
    """
    codec = _codec_of(told_type(headers))
    if codec is None:
        return None
    found = decode_reply_by(codec, value)
    return replace(found, content_type=codec.content_types[0]) if isinstance(found, Reply) else found


def _decode_with_headers(
    value: bytes | None, headers: Headers, fallback_id: str, timestamp_ms: int
) -> Request | Refused:
    event = _read_event(value or b"", headers)
    event_id = event.attributes.get("ce_id")
    is_usable = event_id is not None and REQUEST_ID.fullmatch(event_id) is not None
    request = _decode_data(event, event_id if is_usable and event_id else fallback_id, timestamp_ms)
    if isinstance(request, Refused):
        return request if event.fault is None else _refused(request, event.fault)
    try:
        if event.fault is not None:
            raise event.fault
        if event_id is not None and not is_usable and request.id == fallback_id:
            raise InvalidRequest(f"ce_id {shown(event_id)} is not valid: use 1 to 128 of A-Z a-z 0-9 . _ : -")
        return apply(event.attributes, request)
    except InvalidRequest as err:
        return _refused(request, err)


class _Event(Struct):
    """A record in binary mode; `enveloped`: it was in structured mode. `fault` forbids to follow its attributes."""

    data: bytes
    attributes: dict[str, str] = {}
    fault: InvalidRequest | None = None
    enveloped: bool = False
    content_type: str = ""


def _read_event(value: bytes, headers: Headers) -> _Event:
    event = _Event(value)
    try:
        if is_structured(headers):
            fields = read_event(value)
            event.enveloped, event.data = True, data_of(fields)
            check_event_keys(value, fields)
            headers = attributes_of(fields, headers)
        event.content_type = told_type(headers)
        event.attributes = read_attributes(headers)
        check_event(event.attributes)
    except InvalidRequest as err:
        event.fault = InvalidRequest(err.message)
    return event


def _decode_data(event: _Event, id: str, timestamp_ms: int) -> Request | Refused:
    """The request that an event's data holds, or refers to.

    Raises:
        Undecodable: it is none, and nothing of it but headers can be read.
    """
    if not event.data and "ce_dataref" in event.attributes:
        try:
            ref = read_reference(event.attributes)
            return Request(id, {}, referred_form(event.attributes), ref=ref)
        except InvalidRequest as err:
            return _refused(Refused(id, err, Form.JSON), err)
    try:
        codec = _codec_of(event.content_type, id)
        if codec is not None:
            return _decoded_by(codec, event.data, id, timestamp_ms)
        return decode_record(event.data, (), id, timestamp_ms)
    except Undecodable as err:
        if event.data and event.fault is None and not is_self_told(event.content_type):
            err = _with_type(event.content_type, err)
        if event.enveloped:
            error = event.fault or InvalidRequest(f"the event's data: {err.message}")
            return _refused(Refused(id, error, Form.JSON), error)
        if event.fault is not None:
            raise Undecodable(event.fault.message, id=id) from err
        raise err


def _codec_of(content_type: str, id: str | None = None) -> Codec | None:
    try:
        return codec_for(content_type)
    except InvalidRequest as err:
        raise Undecodable(err.message, id=id) from err


def _decoded_by(codec: Codec, value: bytes, id: str, timestamp_ms: int) -> Request | Refused:
    if not value:
        raise Undecodable("the record has no value", id=id)
    return replace(decode_request_by(codec, value, id, timestamp_ms), form=codec)


def _with_type(content_type: str, err: Undecodable) -> Undecodable:
    """The same of a type that nobody knows, which is the likelier reason."""
    try:
        is_known = codec_for(content_type) is not None
    except InvalidRequest:
        return err  # which says it
    return err if is_known else Undecodable(f"{not_known(content_type)}; {err.message}", id=err.id)


def _refused(request: Request | Refused, error: InvalidRequest) -> Refused:
    error.id = request.id
    return Refused(request.id, error, request.form, request.reply_to, request.store)
