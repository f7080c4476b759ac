"""The maps of a MessagePack request, whose claimed size shows a key that is there twice."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ._decode_faults import in_words
from ._limits import MAX_NAME_CHARS, MAX_PARAMETERS, MAX_TENSORS, Scalar, check_parameters
from .dataref import DataRef
from .errors import InvalidRequest
from .tensors import Tensor, read_tensor
from .topics import shown

_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)

_NIL = Raw(b"\xc0")
_MAX_REF_KEYS = 16

_tensors = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=read_tensor)
_parameters = msgspec.msgpack.Decoder(dict[str, Scalar])
_fields = msgspec.msgpack.Decoder(dict[str, Any])


def _check_map(raw: memoryview, what: str, most: int) -> int:
    """Number of pairs that a MessagePack map claims.

    Raises:
        InvalidRequest: it is no map, or claims more than `most`.
    """
    width = {0xDE: 2, 0xDF: 4}.get(raw[0])
    if 0x80 <= raw[0] <= 0x8F:
        return raw[0] & 0x0F
    if width is None:
        raise InvalidRequest(f"{what} must be a map")
    size = int.from_bytes(raw[1 : 1 + width], "big")
    if size > most:
        raise InvalidRequest(f"{what} holds {size} entries: at most {most}")
    return size


def read_inputs(raw: Raw) -> dict[str, Tensor]:
    """The tensors of a map, each a view of the message.

    Raises:
        InvalidRequest: saying what is wrong.
    """
    view = memoryview(raw)
    size = view[0] ^ 0x80  # a map of up to 15 pairs, as nearly all are
    if size > 0x0F:
        size = _check_map(view, "inputs", MAX_TENSORS)
    try:
        inputs = _tensors.decode(view)
    except _UNREADABLE as err:
        raise InvalidRequest(in_words(err, "inputs")) from err
    if len(inputs) < size:
        raise InvalidRequest("the inputs name one tensor twice")
    for name, tensor in inputs.items():
        if type(tensor) is not Tensor:
            raise InvalidRequest(f"input {shown(name)} is not a tensor (MessagePack ext type 1)")
        if not 0 < len(name) <= MAX_NAME_CHARS:
            raise InvalidRequest(f"input name {shown(name)} is not valid: give 1 to {MAX_NAME_CHARS} characters")
    return inputs


def read_parameters(raw: Raw) -> dict[str, Scalar]:
    """The scalars of a map; nil is an empty one.

    Raises:
        InvalidRequest: saying what is wrong.
    """
    if raw == _NIL:
        return {}
    view = memoryview(raw)
    size = _check_map(view, "parameters", MAX_PARAMETERS)
    try:
        parameters = _parameters.decode(view)
    except _UNREADABLE as err:
        raise InvalidRequest(in_words(err, "parameters")) from err
    if len(parameters) < size:
        raise InvalidRequest("parameters name one key twice")
    check_parameters(parameters)
    return parameters


def read_ref(raw: Raw) -> DataRef | None:
    """The reference to stored tensors that a map holds; None for nil, and for a map of a later release without one.

    Raises:
        InvalidRequest: saying what is wrong.
    """
    if raw == _NIL:
        return None
    view = memoryview(raw)
    size = _check_map(view, "the reference", _MAX_REF_KEYS)
    try:
        fields = _fields.decode(view)
    except _UNREADABLE as err:
        raise InvalidRequest(in_words(err, "the reference")) from err
    if len(fields) < size:
        raise InvalidRequest("the reference names one key twice")
    return DataRef.optional(fields)
