"""Open Inference Protocol v2 JSON: what kcat, Java and curl send, and how they are answered.

A body is one JSON object in UTF-8; a byte order mark before it is skipped. Unknown keys are ignored; a key that an
object holds twice is refused. docs/wire.md states the rules of tensor data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ._binary_tail import SIZE
from ._binary_tail import Tail as Tail
from ._decode_faults import in_words
from ._json_address import refused
from ._json_bodies import UNLIKE as UNLIKE
from ._json_bodies import InferBody as InferBody
from ._json_bodies import Likeness as Likeness
from ._json_bodies import read_infer_body as read_infer_body
from ._json_bodies import read_ref, read_tensors
from ._json_keys import read_object as read_object
from ._json_objects import ReplyBody
from ._json_tensors import BASE64, spelled, write_data, write_large_data
from ._limits import (
    MAX_DEADLINE_MS,
    MAX_TENANT_CHARS,
    MAX_VERSION_CHARS,
    OPTIONS,
    Scalar,
    check_parameters,
    read_return_address,
    read_text,
)
from .dataref import DataRef, S3Prefix
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .tensors import Tensor
from .topics import ReplyTo, shown
from .wire import Form, Refused, Reply, Request, Undecodable, sendable

BINARY_OUTPUT = "binary_data_output"
_UNWRITABLE = (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError)

_encoder = msgspec.json.Encoder()
_replies = msgspec.json.Decoder(ReplyBody)


class Options(Struct, frozen=True):
    """What the parameters of a body say to headrace, taken apart from those of the model.

    Attributes:
        reply_to: return address, where it is a topic.
        deadline_s: seconds from when the request was sent.
        tenant: whom it is counted for.
        version: version of the model asked for.
        parameters: the others, which go to the model.
        store: where the result is to be stored, where `reply_to` says so.
    """

    reply_to: ReplyTo | None
    deadline_s: float | None
    tenant: str | None
    version: str | None
    parameters: dict[str, Scalar]
    store: S3Prefix | None = None


def read_options(parameters: Mapping[str, Scalar]) -> Options:
    """Take the parameters with a meaning of their own out of those of a body.

    `binary_data_output`, Triton's wish for binary tensors, has no meaning but over HTTP.

    Raises:
        InvalidRequest: naming the parameter at fault.
    """
    if not parameters or (len(parameters) == 1 and BINARY_OUTPUT in parameters):
        return Options(None, None, None, None, {})
    reply_to, deadline_s, tenant, version = (parameters.get(name) for name in OPTIONS)
    if type(version) is int:
        version = str(version)  # callers write 1 as often as "1"
    rest = {name: value for name, value in parameters.items() if name not in OPTIONS and name != BINARY_OUTPUT}
    check_parameters(rest)
    address, store = (None, None) if reply_to is None else read_return_address(reply_to)
    return Options(
        address,
        None if deadline_s is None else _check_deadline_s(deadline_s),
        None if tenant is None else read_text(tenant, "tenant", MAX_TENANT_CHARS),
        None if version is None else read_text(version, "version", MAX_VERSION_CHARS),
        rest,
        store,
    )


def encode_json_request(request: Request, *, deadline_s: float | None) -> bytes:
    """The record value of a request, as JSON; its deadline counts from the record's timestamp.

    Raises:
        InvalidRequest: a tensor, name or parameter cannot be written.
    """
    check_parameters(request.parameters)
    if any(isinstance(value, float) and not math.isfinite(value) for value in request.parameters.values()):
        raise InvalidRequest("a parameter is NaN or infinite, which JSON cannot carry", id=request.id)
    options = zip(OPTIONS, (request.return_address, deadline_s, request.tenant, request.version), strict=True)
    body: dict[str, Any] = {"id": request.id}
    body["parameters"] = {**request.parameters, **{name: value for name, value in options if value is not None}}
    if request.ref is None:
        body["inputs"] = [_written(name, tensor) for name, tensor in request.inputs.items()]
    else:
        body |= request.ref.fields()
    if request.outputs is not None:
        body["outputs"] = [{"name": name} for name in request.outputs]
    try:
        return _encoder.encode(body)
    except _UNWRITABLE as err:
        raise InvalidRequest(f"the request cannot be written: {err}", id=request.id) from err


def decode_json_request(value: bytes, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    """Read a JSON record value; faults of an object whose return address can be read come back as `Refused`.

    Raises:
        Undecodable: it is no JSON object.
    """
    try:
        body = read_infer_body(value)
        options = read_options(body.parameters)
        return Request(
            body.id or fallback_id,
            body.inputs,
            Form.JSON,
            None if options.deadline_s is None else deadline_after(timestamp_ms, options.deadline_s),
            options.reply_to,
            options.tenant,
            options.version,
            options.parameters,
            body.outputs,
            body.ref,
            options.store,
        )
    except InvalidRequest as err:
        try:
            return refused(value, fallback_id, err)
        except Undecodable as fault:
            fault.id = fallback_id
            raise


def encode_json_reply(
    id: str,
    model: str,
    version: str,
    outputs: Mapping[str, Tensor],
    parameters: Mapping[str, Any],
    ref: DataRef | None = None,
    binary: Collection[str] = (),
) -> bytes:
    """The record value of a result, as JSON. NaN and infinity among parameters become strings.

    With `ref`, where the whole reply is stored, it is a pointer: `outputs` are empty. Of the outputs named in `binary`
    it says how many bytes follow it, which the caller adds.

    Raises:
        InferenceFailed: an output, name or parameter that the model gave cannot be written.
    """
    safe = {name: spelled(value) if isinstance(value, float) else value for name, value in parameters.items()}
    try:
        items = [
            _described(name, tensor) if name in binary else _written(name, tensor) for name, tensor in outputs.items()
        ]
        body = {"model_name": model, "model_version": version, "id": id, "parameters": safe, "outputs": items}
        return _encoder.encode(body if ref is None else body | ref.fields())
    except (*_UNWRITABLE, InvalidRequest) as err:
        raise InferenceFailed(f"the model's reply cannot be written: {err}", id=id) from err


def encode_json_error(id: str | None, error: HeadraceError, ref: DataRef | None = None) -> bytes:
    """The one shape of an error in JSON, on Kafka and over HTTP. `ref`: where the error reply is stored."""
    body = {"id": id, "error": sendable(error.message), "code": error.code}
    return _encoder.encode(body if ref is None else body | ref.fields())


def decode_json_reply(value: bytes) -> Reply | HeadraceError:
    """Read a JSON reply; an error reply comes back as the typed error, its id set.

    A result whose outputs cannot be read here (BF16 without ml_dtypes) comes back as InvalidRequest, its id set.
    A pointer comes back as it is, its `ref` set: stored_replies.py reads what it points to.

    Raises:
        Undecodable: the value is no reply.
    """
    try:
        body = _replies.decode(value)
        ref = read_ref(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as err:
        raise Undecodable(f"the record is no reply: {in_words(err, 'it')}") from err
    except InvalidRequest as err:
        raise Undecodable(f"the record is no reply: {err.message}") from err
    if body.error is not None:
        error = HeadraceError.from_code(body.code, body.error, id=body.id)
        error.ref = ref
        return error
    if body.outputs is None:
        raise Undecodable("the record is no reply: it has neither outputs nor error", id=body.id)
    try:
        outputs = {name: tensor.to_array() for name, tensor in read_tensors("output", body.outputs).items()}
    except InvalidRequest as err:
        err.id = body.id
        return err
    return Reply(body.id or "", body.model_name, body.model_version, outputs, body.parameters or {}, None, ref)


def tensor_to_json(name: str, tensor: Tensor) -> dict[str, Any]:
    """The item of `inputs` or `outputs` for a tensor, ready for any JSON encoder; its data is flat.

    Raises:
        InvalidRequest: the lengths of BYTES do not fit the data.
    """
    data, is_base64 = write_data(tensor)
    item: dict[str, Any] = {"name": name, "datatype": tensor.datatype, "shape": tensor.shape}
    if is_base64:
        item["parameters"] = {"content_type": BASE64}
    item["data"] = data
    return item


def _described(name: str, tensor: Tensor) -> dict[str, Any]:
    item: dict[str, Any] = {"name": name, "datatype": tensor.datatype, "shape": tensor.shape}
    return item | {"parameters": {SIZE: len(tensor.data)}}


def _written(name: str, tensor: Tensor) -> dict[str, Any]:
    data = write_large_data(tensor)
    if data is None:
        return tensor_to_json(name, tensor)
    return {"name": name, "datatype": tensor.datatype, "shape": tensor.shape, "data": data}


def _check_deadline_s(value: Scalar) -> float:
    if isinstance(value, bool | str) or not 0 < value < MAX_DEADLINE_MS / 1000:
        raise InvalidRequest(f"deadline_s {shown(value)} is not valid: give seconds, more than 0")
    return value


def deadline_after(timestamp_ms: int, deadline_s: float) -> int:
    """The absolute deadline of a record with that timestamp, in epoch milliseconds."""
    return min(math.ceil(timestamp_ms + deadline_s * 1000), MAX_DEADLINE_MS)
