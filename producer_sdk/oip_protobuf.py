"""The codec of Open Inference Protocol protobuf: `inference.ModelInferRequest` and `inference.ModelInferResponse`.

What protobuf has no field for travels as parameters: in a request `reply_to`, `deadline_s` and `tenant` as in JSON;
with the prefix `headrace_` a reference to stored tensors, and code and sentence of an error reply. Needs the extra
`protobuf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from ._codec_messages import Asked, Told, read_reply, read_request
from ._limits import MAX_TENSORS, OPTIONS, Scalar, check_parameters
from ._protobuf_extent import UNCHECKED_BYTES, check_extent
from ._protobuf_schema import ModelInferRequest, ModelInferResponse
from ._protobuf_tensors import read_parameters, read_tensors, write_parameters, write_tensors
from .codecs import PROTOBUF_TYPES
from .dataref import REF_KEYS, DataRef
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .tensors import Tensor
from .topics import shown
from .wire import Refused, Reply, Request, Undecodable, sendable

OURS = "headrace_"
_REFERENCE = frozenset(OURS + key for key in REF_KEYS)
_CODE, _ERROR = OURS + "code", OURS + "error"
_UNWRITABLE = (TypeError, ValueError, OverflowError)


class OipProtobuf:
    """See the module."""

    name = "protobuf"
    content_types = PROTOBUF_TYPES

    def decode_request(self, value: bytes, fallback_id: str, timestamp_ms: int) -> Request | Refused:
        """Read a `ModelInferRequest`. Its `model_name` counts for nothing: the topic names the model.

        Raises:
            Undecodable: it is none.
        """
        message = _parsed(ModelInferRequest, value, 7, "request")
        parameters, fault = read_parameters(message.parameters)
        ref = _taken(parameters, _REFERENCE)
        asked = Asked(
            message.id,
            {**parameters, "version": message.model_version} if message.model_version else parameters,
            lambda: _inputs_of(message, parameters),
            [each.name for each in message.outputs[: MAX_TENSORS + 1]],
            ref,
            fault,
        )
        return read_request(asked, fallback_id, timestamp_ms)

    def encode_request(self, request: Request, *, deadline_s: float | None) -> bytes:
        """A `ModelInferRequest`, its tensors raw.

        Raises:
            InvalidRequest: it cannot be written.
        """
        check_parameters(request.parameters)
        options = zip(OPTIONS[:3], (request.return_address, deadline_s, request.tenant), strict=True)
        told = {name: value for name, value in options if value is not None}
        try:
            message = ModelInferRequest(id=request.id, model_version=request.version or "")
            write_parameters(message.parameters, {**request.parameters, **told, **_reference(request.ref)})
            write_tensors(message.inputs, message.raw_input_contents, request.inputs)
            for name in request.outputs or ():
                message.outputs.add(name=name)
            return _written(message)
        except _UNWRITABLE as err:
            raise InvalidRequest(f"the request cannot be written: {err}", id=request.id) from err

    def encode_reply(
        self,
        id: str,
        model: str,
        version: str,
        outputs: Mapping[str, Tensor],
        parameters: Mapping[str, Any],
        ref: DataRef | None = None,
    ) -> bytes:
        """A `ModelInferResponse`, its tensors raw; with `ref` a pointer.

        Raises:
            InferenceFailed: what the model gave cannot be written.
        """
        try:
            message = ModelInferResponse(model_name=model, model_version=version, id=id)
            write_parameters(message.parameters, {**parameters, **_reference(ref)})
            write_tensors(message.outputs, message.raw_output_contents, outputs)
            return _written(message)
        except _UNWRITABLE as err:
            raise InferenceFailed(f"the model's reply cannot be written: {err}", id=id) from err

    def encode_error(
        self, id: str, model: str, version: str, error: HeadraceError, ref: DataRef | None = None
    ) -> bytes:
        """A `ModelInferResponse` without outputs."""
        message = ModelInferResponse(model_name=model, model_version=version, id=id)
        told = {_CODE: str(error.code), _ERROR: sendable(error.message)}
        write_parameters(message.parameters, {**told, **_reference(ref)})
        return _written(message)

    def decode_reply(self, value: bytes) -> Reply | HeadraceError:
        """Read a `ModelInferResponse`.

        Raises:
            Undecodable: it is none.
        """
        message = _parsed(ModelInferResponse, value, 6, "reply")
        parameters, _ = read_parameters(message.parameters)  # those that are not known are a later release's
        ref = _taken(parameters, _REFERENCE)
        failure = _taken(parameters, frozenset((_CODE, _ERROR)))
        told = Told(
            message.id,
            message.model_name,
            message.model_version,
            parameters,
            lambda: read_tensors(message.outputs, message.raw_output_contents),
            str(failure["code"]) if "code" in failure else None,
            str(failure.get("error", "")),
            ref,
        )
        return read_reply(told)


def _parsed(kind: Any, value: bytes, raw_field: int, what: str) -> Any:
    try:
        if len(value) > UNCHECKED_BYTES:
            check_extent(value, raw_field)
        return kind.FromString(value)
    except InvalidRequest as err:
        raise Undecodable(f"the record is no {what}: {err.message}") from err
    except (DecodeError, UnicodeDecodeError) as err:
        raise Undecodable(f"the record is no {what}: it is no protobuf message {kind.DESCRIPTOR.full_name}") from err


def _inputs_of(message: Any, parameters: Mapping[str, Scalar]) -> dict[str, Tensor]:
    version = message.model_version
    if version and str(parameters.get("version", version)) != version:
        raise InvalidRequest(
            f"model_version is {shown(version)}, but the parameter version {shown(parameters['version'])}"
        )
    return read_tensors(message.inputs, message.raw_input_contents)


def _taken(parameters: dict[str, Scalar], names: frozenset[str]) -> dict[str, Scalar]:
    """Take these out, without their prefix."""
    return {name.removeprefix(OURS): parameters.pop(name) for name in names & parameters.keys()}


def _reference(ref: DataRef | None) -> dict[str, str | int]:
    return {} if ref is None else {OURS + key: value for key, value in ref.fields().items()}


def _written(message: Any) -> bytes:
    """The same bytes for the same message, maps in order."""
    value: bytes = message.SerializeToString(deterministic=True)
    return value


CODEC = OipProtobuf()
