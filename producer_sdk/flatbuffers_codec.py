"""The codec of FlatBuffers, as schemas/inference.fbs describes them: a plug-in that comes with headrace.

Tensors are views of the record. Needs the extra `flatbuffers`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._flat_view import Broken, Table, root
from ._flat_writer import (
    CODES,
    finished,
    new_builder,
    write_parameters,
    write_reference,
    write_table,
    write_tensors,
    write_text,
    write_vector,
)
from ._limits import MAX_PARAMETERS, MAX_TENSORS, OPTIONS, Scalar, check_parameters
from .codecs import Asked, Told, make_tensor, name_tensors, read_reply, read_request
from .dataref import DataRef
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .tensors import Tensor
from .topics import shown
from .wire import Refused, Reply, Request, Undecodable, sendable

REQUEST, REPLY = b"HRQ1", b"HRP1"
_BYTE, _INT64, _UINT64, _DOUBLE = (struct.Struct(f"<{kind}") for kind in "BqQd")
_DATATYPES = {code: datatype for datatype, code in CODES.items()}
_MOST_PARAMETERS = MAX_PARAMETERS + len(OPTIONS)
_TEXT, _FLAG = 1, 2
_NUMBERS = {3: (4, _INT64), 4: (5, _UINT64), 5: (6, _DOUBLE)}  # kind -> field and how it is written
# What the runtime raises for text, numbers and sizes that it cannot write.
_UNWRITABLE = (TypeError, ValueError, OverflowError, struct.error)


class FlatBuffers:
    """See the module."""

    name = "flatbuffers"
    content_types = ("application/x-flatbuffers", "application/flatbuffers")

    def decode_request(self, value: bytes, fallback_id: str, timestamp_ms: int) -> Request | Refused:
        """Read a `Request`; faults of its tensors are told to its return address.

        Raises:
            Undecodable: it is none.
        """
        try:
            table = root(value, REQUEST)
            id, (parameters, fault) = table.text(0) or "", _parameters(table.tables(1, _MOST_PARAMETERS))
        except Broken as err:
            raise Undecodable(f"the record is no request: its FlatBuffer is not valid: {err.message}") from err
        outputs, ref = list[str](), dict[str, object]()
        try:
            outputs, ref = table.texts(3, MAX_TENSORS), _reference(table.table(4))
        except Broken as err:
            fault = err
        asked = Asked(id, parameters, lambda: _tensors(table.tables(2, MAX_TENSORS)), outputs, ref, fault)
        return read_request(asked, fallback_id, timestamp_ms)

    def encode_request(self, request: Request, *, deadline_s: float | None) -> bytes:
        """A `Request`.

        Raises:
            InvalidRequest: it cannot be written.
        """
        check_parameters(request.parameters)
        options = zip(OPTIONS, (request.return_address, deadline_s, request.tenant, request.version), strict=True)
        told = {name: value for name, value in options if value is not None}
        builder = new_builder(request.inputs)
        try:
            fields = (
                write_text(builder, request.id),
                write_parameters(builder, {**request.parameters, **told}),
                write_tensors(builder, request.inputs),
                write_vector(builder, [builder.CreateString(name) for name in request.outputs or ()]),
                write_reference(builder, request.ref),
            )
            return finished(builder, write_table(builder, fields), REQUEST)
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
        """A `Reply`; with `ref` a pointer.

        Raises:
            InferenceFailed: what the model gave cannot be written.
        """
        try:
            return _reply((id, model, version, None, None), parameters, outputs, ref)
        except _UNWRITABLE as err:
            raise InferenceFailed(f"the model's reply cannot be written: {err}", id=id) from err

    def encode_error(
        self, id: str, model: str, version: str, error: HeadraceError, ref: DataRef | None = None
    ) -> bytes:
        """A `Reply` without outputs."""
        return _reply((id, model, version, str(error.code), sendable(error.message)), {}, {}, ref)

    def decode_reply(self, value: bytes) -> Reply | HeadraceError:
        """Read a `Reply`.

        Raises:
            Undecodable: it is none.
        """
        try:
            table = root(value, REPLY)
            id, model, version, code, error = (table.text(field) for field in range(5))
            told = Told(
                id or "",
                model or "",
                version or "",
                _parameters(table.tables(5, _MOST_PARAMETERS))[0],
                lambda: _tensors(table.tables(6, MAX_TENSORS)),
                code,
                error or "",
                _reference(table.table(7)),
            )
        except Broken as err:
            raise Undecodable(f"the record is no reply: its FlatBuffer is not valid: {err.message}") from err
        return read_reply(told)


def _reply(
    texts: tuple[str | None, ...], parameters: Mapping[str, Any], outputs: Mapping[str, Tensor], ref: DataRef | None
) -> bytes:
    builder = new_builder(outputs)
    fields = [write_text(builder, text) for text in texts]
    fields += [write_parameters(builder, parameters), write_tensors(builder, outputs), write_reference(builder, ref)]
    return finished(builder, write_table(builder, fields), REPLY)


def _parameters(tables: Iterable[Table]) -> tuple[dict[str, Scalar], InvalidRequest | None]:
    """The values, and what is wrong with one of them."""
    found: dict[str, Scalar] = {}
    fault = None
    for table in tables:
        name, value = table.text(0) or "", _value(table)
        if name in found:
            fault = InvalidRequest(f"parameter {shown(name)} is there twice")
        elif value is None:
            fault = InvalidRequest(f"parameter {shown(name)} has no value that is known here")
        else:
            found[name] = value
    return found, fault


def _value(table: Table) -> Scalar | None:
    kind = table.scalar(1, _BYTE)
    if kind == _TEXT:
        return table.text(2)
    if kind == _FLAG:
        return table.scalar(3, _BYTE) != 0
    return table.scalar(*_NUMBERS[int(kind)]) if kind in _NUMBERS else None


def _tensors(tables: Iterable[Table]) -> dict[str, Tensor]:
    return name_tensors((table.text(0) or "", _tensor(table)) for table in tables)


def _tensor(table: Table) -> Tensor:
    code = int(table.scalar(1, _BYTE))
    if code not in _DATATYPES:
        raise InvalidRequest(f"a tensor has the unknown datatype code {code}")
    shape, data = table.vector(2, 4), table.vector(3, 1)
    sizes = () if shape is None else np.frombuffer(shape[: 4 * 17], "<u4").tolist()
    return make_tensor(_DATATYPES[code], sizes, data if data is not None else b"")


def _reference(table: Table | None) -> dict[str, object]:
    if table is None:
        return {}
    numbers = {"bytes": table.scalar(2, _INT64, -1), "expires_ms": table.scalar(3, _INT64, -1)}
    texts: dict[str, object] = {"dataref": table.text(0), "sha256": table.text(1)}
    return texts | {name: number for name, number in numbers.items() if number != -1}
