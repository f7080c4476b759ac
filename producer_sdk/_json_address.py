"""Where to send the refusal of a JSON body that is at fault: its id and return address, as far as they can be read."""

from __future__ import annotations

import json

import msgspec
from msgspec import Raw, Struct

from ._limits import read_return_address
from .dataref import S3Prefix
from .errors import InvalidRequest
from .topics import ReplyTo, check_id
from .wire import Form, Refused, Undecodable

_NULL = Raw(b"null")


class _Envelope(Struct):
    id: Raw = _NULL
    parameters: Raw = _NULL


class _Parameters(Struct):
    reply_to: Raw = _NULL


_envelopes = msgspec.json.Decoder(_Envelope)
_parameters = msgspec.json.Decoder(_Parameters)
_texts = msgspec.json.Decoder(str)


def refused(body: bytes, fallback_id: str, error: InvalidRequest) -> Refused:
    """The refusal of a body, with the id and return address that it holds.

    Raises:
        Undecodable: the body is no JSON object even for a lenient reader; the error says so.
    """
    id, reply_to = _read_address(body, error)
    if isinstance(error, Undecodable):
        error = InvalidRequest(error.message)
    error.id = _checked_id(id) or fallback_id
    return Refused(error.id, error, Form.JSON, *_parsed_reply_to(reply_to))


def _read_address(body: bytes, error: InvalidRequest) -> tuple[object, object]:
    try:
        envelope = _envelopes.decode(body)
    except msgspec.ValidationError as err:
        raise Undecodable("the record is JSON, but no object") from err
    except (msgspec.DecodeError, RecursionError):
        return _read_leniently(body, error)
    return _text(envelope.id), _text(_reply_to(envelope.parameters))


def _read_leniently(body: bytes, error: InvalidRequest) -> tuple[object, object]:
    """Many programs write a bare NaN or half of a surrogate pair: no JSON, but their authors deserve an answer."""
    try:
        found = json.loads(body.decode())
    except (ValueError, RecursionError) as err:
        raise Undecodable(error.message) from err
    parameters = found.get("parameters")
    return found.get("id"), parameters.get("reply_to") if isinstance(parameters, dict) else None


def _reply_to(parameters: Raw) -> Raw:
    try:
        return _parameters.decode(parameters).reply_to
    except (msgspec.MsgspecError, RecursionError):
        return _NULL


def _text(raw: Raw) -> str | None:
    try:
        return _texts.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _checked_id(id: object) -> str | None:
    try:
        return check_id(id)
    except InvalidRequest:
        return None


def _parsed_reply_to(text: object) -> tuple[ReplyTo | None, S3Prefix | None]:
    try:
        return read_return_address(text)
    except InvalidRequest:
        return None, None
