"""What a codec gave looked at before anything relies on it: a plug-in is not our code, and annotations bind nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dataref import DataRef, S3Prefix
from .errors import HeadraceError
from .tensors import Tensor
from .topics import ReplyTo, check_id
from .wire import Codec, Refused, Reply, Request, sendable

# A plug-in is not our code: its `sys.exit` must end no worker, either.
PLUG_IN_FAULTS = (Exception, SystemExit)
_MAX_REASON_CHARS = 1000
_REQUEST = {
    "id": str,
    "inputs": dict,
    "deadline_ms": int | None,
    "reply_to": ReplyTo | None,
    "tenant": str | None,
    "version": str | None,
    "parameters": dict,
    "outputs": tuple | None,
    "ref": DataRef | None,
    "store": S3Prefix | None,
}
_REFUSED = {"id": str, "error": HeadraceError, "reply_to": ReplyTo | None, "store": S3Prefix | None}
_REPLY = {"id": str, "model": str, "version": str, "outputs": dict, "parameters": dict, "ref": DataRef | None}


def failed(codec: Codec, what: str, err: BaseException) -> str:
    """A sentence that says so, whatever the exception's text is."""
    reason = err.message if isinstance(err, HeadraceError) else words_of(err)
    return f"codec {codec.name} could not {what}: {reason}"[:_MAX_REASON_CHARS]


def words_of(err: BaseException) -> str:
    """Type and text of an exception of a plug-in, whose text may raise, be long, or be none that can be sent."""
    kind = type(err).__name__
    try:
        return sendable(f"{kind}: {err}")[:_MAX_REASON_CHARS]
    except PLUG_IN_FAULTS as fault:
        return f"{kind} (its text cannot be had: {type(fault).__name__})"


def check_value(value: object) -> bytes:
    """The record value that a codec wrote.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, bytes):
        raise TypeError(f"it gave {type(value).__name__}, not bytes")
    return value


def check_request(found: object) -> Request | Refused:
    """The request that a codec read.

    Raises:
        TypeError: it is none, or something in it is of another type than it may have.
        InvalidRequest: no request can have its id.
    """
    if not isinstance(found, Request | Refused):
        raise TypeError(f"it gave {type(found).__name__} for a request")
    _check_fields(found, _REQUEST if isinstance(found, Request) else _REFUSED)
    check_id(found.id)  # every form can carry one that passes
    if isinstance(found, Refused):
        return found
    inputs: dict[Any, Any] = found.inputs
    for name, tensor in inputs.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(f"input {name!r} is {type(tensor).__name__}, not a Tensor")
    return found


def check_reply(found: object) -> Reply | HeadraceError:
    """The reply that a codec read.

    Raises:
        TypeError: it is none, or something in it is of another type than it may have.
    """
    if isinstance(found, HeadraceError):
        return found
    if not isinstance(found, Reply):
        raise TypeError(f"it gave {type(found).__name__} for a reply")
    _check_fields(found, _REPLY)
    return found


def _check_fields(found: object, kinds: Mapping[str, Any]) -> None:
    for name, kind in kinds.items():
        value = getattr(found, name)
        if not isinstance(value, kind):
            raise TypeError(f"the {type(found).__name__.lower()}'s {name} is {type(value).__name__}")
