"""The contract in Python: what a request and a reply are, and how they travel as MessagePack.

Requests and replies are arrays whose first element is the wire version; a reader ignores elements past those it knows.

    request: [1, id, deadline_ms, reply_to, tenant, version, parameters, outputs, inputs]
    reply:   [1, id, model, version, code, error, parameters, outputs]

One element more, `ref`, is there where the tensors are stored and the record only refers to them.

docs/wire.md states the same for other languages, schemas/ holds it as data.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from ._limits import read_return_address as read_return_address
from ._messages import AnyForm as AnyForm
from ._messages import Codec as Codec
from ._messages import Form as Form
from ._messages import Refused as Refused
from ._messages import Reply as Reply
from ._messages import Request as Request
from ._messages import TensorReply as TensorReply
from ._messages import Undecodable as Undecodable
from ._msgpack_maps import read_inputs, read_parameters, read_ref
from .dataref import DataRef
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .tensors import Array, Datatype, Tensor, read_tensor
from .topics import check_id

WIRE_VERSION = 1
SHOWN_BYTES = 16

_TO_BE_LOOKED_AT = frozenset((Datatype.BYTES, Datatype.BOOL, Datatype.BF16))
_NOTHING = Raw(b"\xc0")
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
UNWRITABLE = (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError)


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
    ref: Raw = _NOTHING


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


class _ReferringOut(_RequestOut, array_like=True, frozen=True, gc=False):
    """A request whose inputs are stored. A class of its own, so that others are written without the element."""

    ref: dict[str, str | int]


class _ReplyEnvelope(Struct, array_like=True, frozen=True, gc=False):
    wire: int
    id: str
    model: str
    version: str
    code: str | None
    error: str | None
    parameters: dict[str, Any]
    outputs: dict[str, Any]
    ref: Any = None


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(_RequestEnvelope)
_replies = msgspec.msgpack.Decoder(_ReplyEnvelope, ext_hook=read_tensor)


def encode_request(request: Request) -> bytes:
    """The record value of a request, as MessagePack.

    Raises:
        InvalidRequest: a tensor or parameter cannot be written (a reserved name, an integer beyond 64 bits).
    """
    inputs = {name: tensor.to_ext() for name, tensor in request.inputs.items()}
    if request.parameters:
        check_parameters(request.parameters)
    fields = (
        WIRE_VERSION,
        request.id,
        request.deadline_ms,
        request.return_address,
        request.tenant,
        request.version,
        request.parameters or None,
        request.outputs,
        inputs,
    )
    envelope = _RequestOut(*fields) if request.ref is None else _ReferringOut(*fields, request.ref.fields())
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
    id, reply_to, store = fallback_id, None, None
    try:
        if envelope.reply_to is not None:
            reply_to, store = read_return_address(envelope.reply_to)
        if envelope.id is not None:
            id = check_id(envelope.id)
        inputs, ref = _read_inputs_or_ref(envelope)
        return Request(
            id,
            inputs,
            Form.MSGPACK,
            None if envelope.deadline_ms is None else check_deadline_ms(envelope.deadline_ms),
            reply_to,
            None if envelope.tenant is None else read_text(envelope.tenant, "tenant", MAX_TENANT_CHARS),
            None if envelope.version is None else read_text(envelope.version, "version", MAX_VERSION_CHARS),
            read_parameters(envelope.parameters),
            None if envelope.outputs is None else read_output_names(envelope.outputs),
            ref,
            store,
        )
    except InvalidRequest as err:
        err.id = id
        return Refused(id, err, Form.MSGPACK, reply_to, store)


def _read_inputs_or_ref(envelope: _RequestEnvelope) -> tuple[dict[str, Tensor], DataRef | None]:
    if envelope.ref is _NOTHING:
        return read_inputs(envelope.inputs), None
    ref = read_ref(envelope.ref)
    inputs = {} if ref is not None and envelope.inputs == _NOTHING else read_inputs(envelope.inputs)
    check_one_source(inputs, ref)
    return inputs, ref


def check_one_source(inputs: Mapping[str, Tensor], ref: DataRef | None) -> None:
    """Check that a request does not have both: which of them counts, readers would disagree.

    Raises:
        InvalidRequest: it has.
    """
    if ref is not None and inputs:
        raise InvalidRequest("the request has inputs and a reference to stored ones: send one of the two")


def _unreadable(value: bytes, err: Exception, id: str) -> Undecodable:
    first = value[0] if value else 0
    if first & 0xF0 == 0x90 or first in (0xDC, 0xDD):
        return Undecodable(f"the record is no request: its MessagePack {in_words(err, 'array')}", id=id)
    return Undecodable(
        "the record is no request: a value is either a JSON object of the Open Inference Protocol or the MessagePack "
        f"array of headrace's docs/wire.md, but this one begins with {bytes(value[:SHOWN_BYTES])!r}; "
        "any other form needs its header content-type (docs/codecs.md)",
        id=id,
    )


def encode_reply(
    id: str,
    model: str,
    version: str,
    outputs: Mapping[str, msgspec.msgpack.Ext],
    parameters: Mapping[str, Any] | Raw,
    ref: DataRef | None = None,
) -> bytes:
    """The record value of a result; `outputs` come from `tensor_ext`, `parameters` may be written beforehand.

    With `ref`, where the whole reply is stored, it is a pointer: `outputs` are empty.

    Raises:
        InferenceFailed: a name or parameter that the model gave cannot be written.
    """
    try:
        return _encoder.encode((WIRE_VERSION, id, model, version, None, None, parameters, outputs, *_last(ref)))
    except UNWRITABLE as err:
        raise InferenceFailed(f"the model's reply cannot be written: {err}", id=id) from err


def encode_error(id: str, model: str, version: str, error: HeadraceError, ref: DataRef | None = None) -> bytes:
    """The record value of an error reply; works for any text that an exception can hold. `ref`: where it is stored."""
    message = sendable(error.message)
    return _encoder.encode((WIRE_VERSION, id, model, version, error.code, message, {}, {}, *_last(ref)))


def _last(ref: DataRef | None) -> tuple[dict[str, str | int], ...]:
    return () if ref is None else (ref.fields(),)


def decode_reply(value: bytes, *, as_tensors: bool = False) -> Reply | HeadraceError:
    """Read a MessagePack reply; an error reply comes back as the typed error, its id set.

    A result whose outputs cannot be read here (BF16 without ml_dtypes) comes back as InvalidRequest, its id set.
    A pointer comes back as it is, its `ref` set: stored_replies.py reads what it points to.
    `as_tensors`: a result may come as `TensorReply`.

    Raises:
        Undecodable: the value is no reply.
    """
    try:
        envelope = _replies.decode(value)
        ref = DataRef.optional(envelope.ref) if type(envelope.ref) is dict else None
    except (*_UNREADABLE, InvalidRequest) as err:
        raise Undecodable(f"the record is no reply: {_why(err)}") from err
    if envelope.wire != WIRE_VERSION:
        raise Undecodable(f"wire version {envelope.wire} is not known here: this reads {WIRE_VERSION}", id=envelope.id)
    if envelope.code is not None:
        error = HeadraceError.from_code(envelope.code, envelope.error or "", id=envelope.id)
        error.parameters, error.ref = envelope.parameters, ref
        return error
    if as_tensors and ref is None and _are_plain(envelope.outputs):
        return TensorReply(
            envelope.id, envelope.model, envelope.version, {}, envelope.parameters, tensors=envelope.outputs
        )
    try:
        outputs = {name: read_output(name, tensor) for name, tensor in envelope.outputs.items()}
    except InvalidRequest as err:
        err.id = envelope.id
        return err
    return Reply(envelope.id, envelope.model, envelope.version, outputs, envelope.parameters, None, ref)


def _are_plain(outputs: dict[str, Any]) -> bool:
    """Whether all are tensors that any bytes of their size make sense of."""
    return not [each for each in outputs.values() if type(each) is not Tensor or each.datatype in _TO_BE_LOOKED_AT]


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
