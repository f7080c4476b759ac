"""Writes the tables of schemas/inference.fbs. Each function gives where it has put what it wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flatbuffers

from .dataref import UNKNOWN_BYTES, DataRef
from .tensors import Datatype, Tensor

CODES = {datatype: code for code, datatype in enumerate(Datatype, start=1)}


def write_table(builder: Any, offsets: Sequence[int | None]) -> int:
    """A table whose fields are references, None where there is none."""
    builder.StartObject(len(offsets))
    for field, offset in enumerate(offsets):
        if offset is not None:
            builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    return int(builder.EndObject())


def write_text(builder: Any, text: str | None) -> int | None:
    return None if text is None else builder.CreateString(text)


def write_vector(builder: Any, offsets: Iterable[int]) -> int | None:
    """A vector of references; nothing for an empty one."""
    places = list(offsets)
    if not places:
        return None
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())


def write_tensors(builder: Any, tensors: Mapping[str, Tensor]) -> int | None:
    return write_vector(builder, [_tensor(builder, name, tensor) for name, tensor in tensors.items()])


def write_parameters(builder: Any, parameters: Mapping[str, Any]) -> int | None:
    """Raises TypeError or ValueError where a value is none that the schema holds."""
    return write_vector(builder, [_parameter(builder, name, value) for name, value in parameters.items()])


def write_reference(builder: Any, ref: DataRef | None) -> int | None:
    if ref is None:
        return None
    uri, sha256 = builder.CreateString(ref.uri), builder.CreateString(ref.sha256)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, uri, 0)
    builder.PrependUOffsetTRelativeSlot(1, sha256, 0)
    builder.PrependInt64Slot(2, ref.nbytes, UNKNOWN_BYTES)
    builder.PrependInt64Slot(3, -1 if ref.expires_ms is None else ref.expires_ms, -1)
    return int(builder.EndObject())


def finished(builder: Any, root: int, identifier: bytes) -> bytes:
    builder.Finish(root, file_identifier=identifier)
    return bytes(builder.Output())


def new_builder(tensors: Mapping[str, Tensor]) -> Any:
    """A builder that need not grow for these tensors: growing copies all that is there."""
    return flatbuffers.Builder(1024 + sum(len(tensor.data) + 128 for tensor in tensors.values()))


def _tensor(builder: Any, name: str, tensor: Tensor) -> int:
    data = builder.CreateByteVector(bytes(tensor.data))
    builder.StartVector(4, len(tensor.shape), 4)
    for size in reversed(tensor.shape):
        builder.PrependUint32(size)
    shape = builder.EndVector()
    called = builder.CreateString(name)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, called, 0)
    builder.PrependUint8Slot(1, CODES[tensor.datatype], 0)
    builder.PrependUOffsetTRelativeSlot(2, shape, 0)
    builder.PrependUOffsetTRelativeSlot(3, data, 0)
    return int(builder.EndObject())


def _parameter(builder: Any, name: str, value: object) -> int:
    called = builder.CreateString(name)
    text = builder.CreateString(value) if isinstance(value, str) else None
    builder.StartObject(7)
    builder.PrependUOffsetTRelativeSlot(0, called, 0)
    if text is not None:
        _set(builder, 1, lambda: builder.PrependUOffsetTRelativeSlot(2, text, 0))
    elif isinstance(value, bool):
        _set(builder, 2, lambda: builder.PrependBoolSlot(3, value, None))
    elif isinstance(value, int) and value < 2**63:
        _set(builder, 3, lambda: builder.PrependInt64Slot(4, value, None))
    elif isinstance(value, int):
        _set(builder, 4, lambda: builder.PrependUint64Slot(5, value, None))
    elif isinstance(value, float):
        _set(builder, 5, lambda: builder.PrependFloat64Slot(6, value, None))
    else:
        raise TypeError(f"parameter {name!r} is {type(value).__name__}: give text, a number or a boolean")
    return int(builder.EndObject())


def _set(builder: Any, kind: int, put: Any) -> None:
    builder.PrependUint8Slot(1, kind, 0)
    put()
