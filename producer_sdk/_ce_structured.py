"""CloudEvents in structured mode: the event is one JSON object, attributes and data, and is turned into binary mode."""

from __future__ import annotations

import base64
import binascii
import re

import msgspec
from msgspec import Raw

from ._ce_types import CONTENT_TYPE, PREFIX, media_type
from ._decode_faults import in_words, no_json
from ._json_keys import BYTE_ORDER_MARK, check_keys
from .broker import Headers
from .errors import InvalidRequest
from .topics import shown
from .wire import Undecodable

STRUCTURED = "application/cloudevents+json"
_FORMATS = "application/cloudevents"  # what all of structured and batch mode begin with
_OWN = ("specversion", "type", "source")
_DATA = ("data", "data_base64")
_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_events = msgspec.json.Decoder(dict[str, Raw])
_plain = msgspec.json.Decoder(str | bool | int | None)
_texts = msgspec.json.Decoder(str)

Event = dict[str, Raw]


def is_structured(headers: Headers) -> bool:
    """Whether the value is a whole event.

    Raises:
        InvalidRequest: it is one of a format that is not taken, or a batch of them.
    """
    for name, content in headers:
        if len(name) == len(CONTENT_TYPE) and name.lower() == CONTENT_TYPE:
            kind, charset = media_type(content)
            if kind == STRUCTURED and charset:
                return True
            if kind.startswith(_FORMATS):
                raise InvalidRequest(f"content-type {shown(_text(content))} is not taken: {_advice(kind)}")
    return False


def read_event(value: bytes) -> Event:
    """The attributes and the data of an event, none of them read further; a key that is there twice counts once.

    Raises:
        Undecodable: the value is no JSON object.
        InvalidRequest: it is one, but has nothing of an event.
    """
    body = value.removeprefix(BYTE_ORDER_MARK)
    try:
        if not body.isascii():
            body.decode()
        event = _events.decode(body)
    except msgspec.ValidationError as err:
        raise Undecodable(in_words(err, "the event")) from err
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        raise Undecodable(no_json(body, err, "the event")) from err
    if not any(name in event for name in _OWN):
        raise InvalidRequest(f"the record is no CloudEvent: {', '.join(_OWN)} missing")
    return event


def check_event_keys(value: bytes, event: Event) -> None:
    """Check that no object of the event holds a key twice.

    Raises:
        InvalidRequest: naming the key.
    """
    check_keys(value.removeprefix(BYTE_ORDER_MARK), len(event))


def attributes_of(event: Event, headers: Headers) -> list[tuple[str, bytes]]:
    """The headers that the record would have in binary mode: its own, but those of the event as the event says.

    Raises:
        InvalidRequest: an attribute has a name or a value that none can have.
    """
    kept = [(name, content) for name, content in headers if not _is_of_event(name)]
    for name, raw in event.items():
        if name in _DATA:
            continue
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"the event's attribute {shown(name)} is not valid: names are of a-z 0-9")
        text = _attribute(name, raw)
        if text is not None:
            kept.append((CONTENT_TYPE if name == "datacontenttype" else PREFIX + name, text))
    return kept


def data_of(event: Event) -> bytes:
    """The data: an object's own bytes, the UTF-8 of text, or what base64 stands for; empty where there is none.

    Raises:
        InvalidRequest: there are both `data` and `data_base64`, or base64 is broken.
    """
    data, encoded = (raw if raw is not None and bytes(raw) != b"null" else None for raw in map(event.get, _DATA))
    if data is not None and encoded is not None:
        raise InvalidRequest("the event has data and data_base64: send one of the two")
    if encoded is not None:
        try:
            return base64.b64decode(_texts.decode(encoded), validate=True)
        except (msgspec.MsgspecError, binascii.Error, ValueError) as err:
            raise InvalidRequest("the event's data_base64 is no base64 text") from err
    written = b"" if data is None else bytes(data)
    return _texts.decode(written).encode() if written.startswith(b'"') else written


def _attribute(name: str, raw: Raw) -> bytes | None:
    try:
        value = _plain.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise InvalidRequest(f"the event's {name} is neither text nor boolean nor integer") from err
    if value is None or isinstance(value, bool):
        return None if value is None else b"true" if value else b"false"
    return str(value).encode()


def _is_of_event(name: str) -> bool:
    return name.startswith(PREFIX) or name.lower() == CONTENT_TYPE


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


def _advice(kind: str) -> str:
    if kind.startswith(f"{_FORMATS}-batch"):
        return "Kafka has no batch mode, publish each event as a record of its own"
    if kind == STRUCTURED:
        return "headrace reads UTF-8"
    return f"of the formats of structured mode this reads {STRUCTURED}"
