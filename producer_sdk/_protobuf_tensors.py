"""Tensors and parameters in the messages of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._bytes_elements import pack_bytes
from ._codec_messages import make_tensor, name_tensors
from ._limits import Scalar
from .errors import InvalidRequest
from .tensors import Buffer, Datatype, Tensor, numpy_dtype
from .topics import shown

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_NOT_TAKEN = ("binary_data_size", "shared_memory_region", "classification")


def read_tensors(items: Sequence[Any], raw: Sequence[bytes]) -> dict[str, Tensor]:
    """The tensors of `inputs` or `outputs`, with the bytes of the raw contents, or contents of their own.

    Raises:
        InvalidRequest: naming the tensor at fault.
    """
    if raw and len(raw) != len(items):
        raise InvalidRequest(f"there are raw contents for {len(raw)} of {len(items)} tensors: send all of them raw")
    return name_tensors(
        (item.name, _read_tensor(item, raw[place] if raw else None)) for place, item in enumerate(items)
    )


def _read_tensor(item: Any, raw: bytes | None) -> Tensor:
    try:
        for name in _NOT_TAKEN:
            if name in item.parameters:
                raise InvalidRequest(f"its parameter {name} is not taken here")
        shape = tuple(item.shape)
        if raw is None:
            return make_tensor(item.datatype, shape, _read_contents(item))
        if item.contents.ListFields():
            raise InvalidRequest("it has raw contents and others: send one of the two")
        return make_tensor(item.datatype, shape, raw)
    except InvalidRequest as err:
        raise InvalidRequest(f"tensor {shown(item.name)}: {err.message}") from err


def _read_contents(item: Any) -> Buffer:
    fields = {field.name: elements for field, elements in item.contents.ListFields()}
    name = _CONTENTS.get(item.datatype)
    elements = fields.pop(name, ()) if name is not None else ()
    if fields:
        way = f"in {name}" if name is not None else "as raw contents"
        raise InvalidRequest(f"elements of {shown(item.datatype)} do not come in {', '.join(fields)}: send them {way}")
    if item.datatype == Datatype.BYTES:
        return pack_bytes(list(elements))
    return _numbers(elements, Datatype(item.datatype)) if name is not None else b""


def _numbers(elements: Sequence[Any], datatype: Datatype) -> Buffer:
    dtype = numpy_dtype(datatype)
    wide = np.array(elements, dtype="<i8" if dtype.kind == "i" else "<u8" if dtype.kind == "u" else dtype)
    narrow = wide.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(wide, narrow):
        raise InvalidRequest(f"an element is beyond what {datatype} holds")
    return narrow.tobytes()


def write_tensors(items: Any, raw: Any, tensors: Mapping[str, Tensor]) -> None:
    """Add the tensors to the fields of a message, raw."""
    for name, tensor in tensors.items():
        items.add(name=name, datatype=tensor.datatype.value, shape=tensor.shape)
        raw.append(bytes(tensor.data))


def read_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Scalar], InvalidRequest | None]:
    """The values of a map of parameters, and what is wrong where one has none.

    In order of their names: protobuf's own differs from process to process, and fingerprints must not.
    """
    found: dict[str, Scalar] = {}
    fault = None
    for name, parameter in sorted(parameters.items(), key=lambda item: item[0]):
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            fault = InvalidRequest(f"parameter {shown(name)} has no value that is known here")
        else:
            found[name] = getattr(parameter, choice)
    return found, fault


def write_parameters(fields: Any, parameters: Mapping[str, Any]) -> None:
    """Set them in the map of a message.

    Raises:
        TypeError, ValueError: a value is none that protobuf carries.
    """
    for name, value in parameters.items():
        setattr(fields[name], _choice(name, value), value)


def _choice(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "bool_param"
    if isinstance(value, int):
        return "int64_param" if -(2**63) <= value < 2**63 else "uint64_param"
    if isinstance(value, float):
        return "double_param"
    if isinstance(value, str):
        return "string_param"
    raise TypeError(f"parameter {name!r} is {type(value).__name__}: protobuf carries text, numbers and booleans")
