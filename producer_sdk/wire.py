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

from .errors import HeadraceError, InvalidRequest
from .tensors import Array, Tensor, read_tensor
from .topics import ReplyTo, check_id, parse_reply_to

WIRE_VERSION = 1
MAX_TENSORS = 64
MAX_PARAMETERS = 64
MAX_NAME_CHARS = 256
MAX_DEADLINE_MS = 253_402_300_800_000  # the year 10000

Scalar = bool | int | float | str
_NOTHING = Raw(b"\xc0")


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
_tensors = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=read_tensor)
_parameters = msgspec.msgpack.Decoder(dict[str, Scalar])


def encode_request(request: Request) -> bytes:
    """The record value of a request, as MessagePack.

    Raises:
        InvalidRequest: a tensor or parameter cannot be written (an integer beyond 64 bits).
    """
    reply_to = None if request.reply_to is None else str(request.reply_to)
    inputs = {name: tensor.to_ext() for name, tensor in request.inputs.items()}
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
    except (OverflowError, TypeError, msgspec.MsgspecError) as err:
        raise InvalidRequest(f"the parameters cannot be written: {err}", id=request.id) from err


def decode_request(value: bytes, fallback_id: str) -> Request | Refused:
    """Read a MessagePack record value; faults behind the return address come back as `Refused`.

    Raises:
        Undecodable: the envelope cannot be read.
    """
    try:
        envelope = _requests.decode(value)
    except (msgspec.MsgspecError, RecursionError, ValueError) as err:
        raise Undecodable(f"the record is no request envelope: {err}", id=fallback_id) from err
    if envelope.wire != WIRE_VERSION:
        raise Undecodable(f"wire version {envelope.wire} is not known here: this reads {WIRE_VERSION}", id=fallback_id)
    id, reply_to = fallback_id, None
    try:
        if envelope.reply_to is not None:
            reply_to = parse_reply_to(_text(envelope.reply_to, "reply_to", 280))
        if envelope.id is not None:
            id = check_id(envelope.id)
        return Request(
            id,
            _read_inputs(envelope.inputs),
            Form.MSGPACK,
            None if envelope.deadline_ms is None else check_deadline_ms(envelope.deadline_ms),
            reply_to,
            None if envelope.tenant is None else _text(envelope.tenant, "tenant", 128),
            None if envelope.version is None else _text(envelope.version, "version", 64),
            _read_parameters(envelope.parameters),
            None if envelope.outputs is None else read_output_names(envelope.outputs),
        )
    except InvalidRequest as err:
        err.id = id
        return Refused(id, err, Form.MSGPACK, reply_to)


def encode_reply(
    id: str,
    model: str,
    version: str,
    outputs: Mapping[str, msgspec.msgpack.Ext],
    parameters: Mapping[str, Any] | Raw,
) -> bytes:
    """The record value of a result; `outputs` come from `tensor_ext`, `parameters` may be written beforehand."""
    return _encoder.encode((WIRE_VERSION, id, model, version, None, None, parameters, outputs))


def encode_error(id: str, model: str, version: str, error: HeadraceError) -> bytes:
    """The record value of an error reply."""
    return _encoder.encode((WIRE_VERSION, id, model, version, error.code, error.message, {}, {}))


def decode_reply(value: bytes) -> Reply | HeadraceError:
    """Read a MessagePack reply; an error reply comes back as the typed error, its id set.

    Raises:
        Undecodable: the value is no reply.
    """
    try:
        envelope = _replies.decode(value)
        if envelope.code is not None:
            error = HeadraceError.from_code(envelope.code, envelope.error or "", id=envelope.id)
            error.parameters = envelope.parameters
            return error
        outputs = {name: tensor.to_array() for name, tensor in envelope.outputs.items()}
    except (msgspec.MsgspecError, RecursionError, ValueError, AttributeError, InvalidRequest) as err:
        raise Undecodable(f"the record is no reply: {err}") from err
    return Reply(envelope.id, envelope.model, envelope.version, outputs, envelope.parameters)


def check_deadline_ms(value: object) -> int:
    """The absolute deadline itself.

    Raises:
        InvalidRequest: it is not a whole number of epoch milliseconds before the year 10000.
    """
    if type(value) is not int or not 0 <= value <= MAX_DEADLINE_MS:
        raise InvalidRequest(f"deadline_ms {str(value)[:40]!r} is not valid: give whole epoch milliseconds")
    return value


def read_output_names(value: object) -> tuple[str, ...]:
    """Names of the outputs wanted.

    Raises:
        InvalidRequest: it is not a list of 1 to 64 different names.
    """
    if not isinstance(value, list) or not 0 < len(value) <= MAX_TENSORS:
        raise InvalidRequest(f"outputs must be a list of 1 to {MAX_TENSORS} names")
    names = tuple(_text(name, "output name", MAX_NAME_CHARS) for name in value)
    if len(set(names)) < len(names):
        raise InvalidRequest("outputs names one output twice")
    return names


def _text(value: object, what: str, most: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise InvalidRequest(f"{what} {str(value)[:40]!r} is not valid: give text of 1 to {most} characters")
    return value


def _map_size(raw: memoryview) -> int:
    """Number of pairs that a MessagePack map claims; -1 for anything but a map."""
    first = raw[0]
    if 0x80 <= first <= 0x8F:
        return first & 0x0F
    width = {0xDE: 2, 0xDF: 4}.get(first)
    return -1 if width is None else int.from_bytes(raw[1 : 1 + width], "big")


def _check_map(raw: memoryview, what: str, most: int) -> int:
    size = _map_size(raw)
    if size < 0:
        raise InvalidRequest(f"{what} must be a map")
    if size > most:
        raise InvalidRequest(f"{what} holds {size} entries: at most {most}")
    return size


def _read_inputs(raw: Raw) -> dict[str, Tensor]:
    view = memoryview(raw)
    size = _check_map(view, "inputs", MAX_TENSORS)
    try:
        inputs = _tensors.decode(view)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise InvalidRequest(f"the inputs cannot be read: {err}") from err
    if len(inputs) < size:
        raise InvalidRequest("the inputs name one tensor twice")
    for name, tensor in inputs.items():
        if type(tensor) is not Tensor:
            raise InvalidRequest(f"input {name[:80]!r} is not a tensor (MessagePack ext type 1)")
    return inputs


def _read_parameters(raw: Raw) -> dict[str, Scalar]:
    view = memoryview(raw)
    if view[0] == 0xC0:
        return {}
    size = _check_map(view, "parameters", MAX_PARAMETERS)
    try:
        parameters = _parameters.decode(view)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise InvalidRequest(f"parameters must be text, numbers or booleans by name: {err}") from err
    if len(parameters) < size:
        raise InvalidRequest("parameters name one key twice")
    return parameters
