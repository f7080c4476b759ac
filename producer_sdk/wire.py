"""The contract in Python: what a request and a reply are, and how they travel as MessagePack.

Requests and replies are arrays whose first element is the wire version; a reader ignores elements past those it knows.

    request: [1, id, deadline_ms, reply_to, tenant, version, parameters, outputs, inputs]
    reply:   [1, id, model, version, code, error, parameters, outputs]

docs/wire.md states the same for other languages, schemas/ holds it as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ._decode_faults import in_words
from ._limits import MAX_DEADLINE_MS as MAX_DEADLINE_MS
from ._limits import MAX_NAME_CHARS as MAX_NAME_CHARS
from ._limits import MAX_PARAMETERS as MAX_PARAMETERS
from ._limits import MAX_TENANT_CHARS, MAX_VERSION_CHARS, check_parameters, read_text
from ._limits import MAX_TENSORS as MAX_TENSORS
from ._limits import Scalar as Scalar
from ._limits import check_deadline_ms as check_deadline_ms
from ._limits import read_output_names as read_output_names
from ._msgpack_maps import read_inputs, read_parameters
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .tensors import Array, Tensor, read_tensor
from .topics import ReplyTo, check_id, parse_reply_to

WIRE_VERSION = 1
SHOWN_BYTES = 16

_NOTHING = Raw(b"\xc0")
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
UNWRITABLE = (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError)


class Form(Enum):
    """How a request was written; its reply is written the same way."""

    MSGPACK = "msgpack"  # the envelope of this module
    JSON = "json"  # Open Inference Protocol v2 JSON, see oip.py


class Undecodable(InvalidRequest):
    """The record cannot be read, so nobody can be answered."""


class Request(Struct, frozen=True, gc=False):
    """One request as read from a record.

    Attributes:
        id: given by the caller, else derived from the record's place.
        inputs: tensors by name; the leading dimension is rows.
        form: how it was written.
        deadline_ms: absolute, in epoch milliseconds; None never expires.
        reply_to: where the reply goes; None means the model's results topic.
        tenant: whom it is counted for.
        version: version of the model that it asks for; None leaves the choice to the worker.
        parameters: passed to the model.
        outputs: names of the outputs wanted; None means all.
    """

    id: str
    inputs: dict[str, Tensor]
    form: Form = Form.MSGPACK
    deadline_ms: int | None = None
    reply_to: ReplyTo | None = None
    tenant: str | None = None
    version: str | None = None
    parameters: dict[str, Scalar] = {}
    outputs: tuple[str, ...] | None = None


class Refused(Struct, frozen=True):
    """A record that is no valid request, with as much of its return address as could be read."""

    id: str
    error: HeadraceError
    form: Form = Form.MSGPACK
    reply_to: ReplyTo | None = None


class Reply(Struct, frozen=True, gc=False):
    """A result.

    Attributes:
        id: of the request.
        model: name of the model that answered.
        version: its version.
        outputs: read-only arrays by name; BYTES outputs are object arrays of `bytes`.
        parameters: `batch_rows`, `queue_ms`, `run_ms` from the worker, and what the model adds.
        index: place in the iterable given to `Client.map`, else None.
    """

    id: str
    model: str
    version: str
    outputs: dict[str, Array]
    parameters: dict[str, Any] = {}
    index: int | None = None


class _RequestEnvelope(Struct, array_like=True, frozen=True, gc=False):
    wire: int
    id: Any = None
    deadline_ms: Any = None
    reply_to: Any = None
    tenant: Any = None
    version: Any = None
    parameters: Raw = _NOTHING
    outputs: Any = None
    inputs: Raw = _NOTHING


class _RequestOut(Struct, array_like=True, frozen=True, gc=False):
    wire: int
    id: str | None
    deadline_ms: int | None
    reply_to: str | None
    tenant: str | None
    version: str | None
    parameters: Mapping[str, Scalar] | None
    outputs: tuple[str, ...] | None
    inputs: dict[str, msgspec.msgpack.Ext]


class _ReplyEnvelope(Struct, array_like=True, frozen=True, gc=False):
    wire: int
    id: str
    model: str
    version: str
    code: str | None
    error: str | None
    parameters: dict[str, Any]
    outputs: dict[str, Any]


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(_RequestEnvelope)
_replies = msgspec.msgpack.Decoder(_ReplyEnvelope, ext_hook=read_tensor)


def encode_request(request: Request) -> bytes:
    """The record value of a request, as MessagePack.

    Raises:
        InvalidRequest: a tensor or parameter cannot be written (a reserved name, an integer beyond 64 bits).
    """
    reply_to = None if request.reply_to is None else str(request.reply_to)
    inputs = {name: tensor.to_ext() for name, tensor in request.inputs.items()}
    if request.parameters:
        check_parameters(request.parameters)
    envelope = _RequestOut(
        WIRE_VERSION,
        request.id,
        request.deadline_ms,
        reply_to,
        request.tenant,
        request.version,
        request.parameters or None,
        request.outputs,
        inputs,
    )
    try:
        return _encoder.encode(envelope)
    except UNWRITABLE as err:
        raise InvalidRequest(f"the request cannot be written: {err}", id=request.id) from err


def decode_request(value: bytes, fallback_id: str) -> Request | Refused:
    """Read a MessagePack record value; faults behind the return address come back as `Refused`.

    Raises:
        Undecodable: the envelope cannot be read.
    """
    try:
        envelope = _requests.decode(value)
    except _UNREADABLE as err:
        raise _unreadable(value, err, fallback_id) from err
    if envelope.wire != WIRE_VERSION:
        raise Undecodable(f"wire version {envelope.wire} is not known here: this reads {WIRE_VERSION}", id=fallback_id)
    id, reply_to = fallback_id, None
    try:
        if envelope.reply_to is not None:
            reply_to = parse_reply_to(read_text(envelope.reply_to, "reply_to", 280))
        if envelope.id is not None:
            id = check_id(envelope.id)
        return Request(
            id,
            read_inputs(envelope.inputs),
            Form.MSGPACK,
            None if envelope.deadline_ms is None else check_deadline_ms(envelope.deadline_ms),
            reply_to,
            None if envelope.tenant is None else read_text(envelope.tenant, "tenant", MAX_TENANT_CHARS),
            None if envelope.version is None else read_text(envelope.version, "version", MAX_VERSION_CHARS),
            read_parameters(envelope.parameters),
            None if envelope.outputs is None else read_output_names(envelope.outputs),
        )
    except InvalidRequest as err:
        err.id = id
        return Refused(id, err, Form.MSGPACK, reply_to)


def _unreadable(value: bytes, err: Exception, id: str) -> Undecodable:
    first = value[0] if value else 0
    if first & 0xF0 == 0x90 or first in (0xDC, 0xDD):
        return Undecodable(f"the record is no request: its MessagePack {in_words(err, 'array')}", id=id)
    return Undecodable(
        "the record is no request: a value is either a JSON object of the Open Inference Protocol or the MessagePack "
        f"array of headrace's docs/wire.md, but this one begins with {bytes(value[:SHOWN_BYTES])!r}",
        id=id,
    )


def encode_reply(
    id: str,
    model: str,
    version: str,
    outputs: Mapping[str, msgspec.msgpack.Ext],
    parameters: Mapping[str, Any] | Raw,
) -> bytes:
    """The record value of a result; `outputs` come from `tensor_ext`, `parameters` may be written beforehand.

    Raises:
        InferenceFailed: a name or parameter that the model gave cannot be written.
    """
    try:
        return _encoder.encode((WIRE_VERSION, id, model, version, None, None, parameters, outputs))
    except UNWRITABLE as err:
        raise InferenceFailed(f"the model's reply cannot be written: {err}", id=id) from err


def encode_error(id: str, model: str, version: str, error: HeadraceError) -> bytes:
    """The record value of an error reply; works for any text that an exception can hold."""
    return _encoder.encode((WIRE_VERSION, id, model, version, error.code, sendable(error.message), {}, {}))


def decode_reply(value: bytes) -> Reply | HeadraceError:
    """Read a MessagePack reply; an error reply comes back as the typed error, its id set.

    A result whose outputs cannot be read here (BF16 without ml_dtypes) comes back as InvalidRequest, its id set.

    Raises:
        Undecodable: the value is no reply.
    """
    try:
        envelope = _replies.decode(value)
    except (*_UNREADABLE, InvalidRequest) as err:
        raise Undecodable(f"the record is no reply: {_why(err)}") from err
    if envelope.wire != WIRE_VERSION:
        raise Undecodable(f"wire version {envelope.wire} is not known here: this reads {WIRE_VERSION}", id=envelope.id)
    if envelope.code is not None:
        error = HeadraceError.from_code(envelope.code, envelope.error or "", id=envelope.id)
        error.parameters = envelope.parameters
        return error
    try:
        outputs = {name: read_output(name, tensor) for name, tensor in envelope.outputs.items()}
    except InvalidRequest as err:
        err.id = envelope.id
        return err
    return Reply(envelope.id, envelope.model, envelope.version, outputs, envelope.parameters)


def _why(err: Exception) -> str:
    return err.message if isinstance(err, InvalidRequest) else in_words(err, "it")


def read_output(name: str, tensor: object) -> Array:
    """The array of an output.

    Raises:
        InvalidRequest: it is no tensor, its content is broken, or it is BF16 and ml_dtypes is missing.
    """
    if type(tensor) is not Tensor:
        raise InvalidRequest(f"output {name[:80]!r} is not a tensor (MessagePack ext type 1)")
    return tensor.to_array()


def sendable(text: str) -> str:
    """The text, with "?" for lone surrogates, which no encoding carries."""
    return text.encode("utf-8", "replace").decode()
