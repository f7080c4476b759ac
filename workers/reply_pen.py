"""Each record's part of the outputs of a run, and results written from it in MessagePack. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw
from msgspec.msgpack import Ext, encode

from producer_sdk.errors import HeadraceError, PayloadTooLarge
from producer_sdk.forms import result_value
from producer_sdk.replies_alike import Output, RepliesAlike
from producer_sdk.tensors import Tensor, tensor_ext
from producer_sdk.wire import AnyForm, Form, encode_reply

from .work import Block, Work

MAX_JSON_TENSOR_BYTES = 16 * 1024 * 1024  # more would hold up the worker's one loop for seconds


class Cut:
    """Cuts one record's rows out of a block."""

    __slots__ = ("_row_bytes", "_view", "block")

    def __init__(self, block: Block, rows: int) -> None:
        self.block = block
        self._view = memoryview(block.data)
        self._row_bytes = len(self._view) // rows if rows else 0

    def tensor(self, first: int, rows: int) -> Tensor:
        return Tensor(self.block.datatype, self._shape(rows), self.data(first, rows))

    def ext(self, first: int, rows: int) -> Ext:
        return tensor_ext(self.block.datatype, self._shape(rows), self.data(first, rows))

    def output(self, rows: int) -> Output | None:
        """What so many rows of it have in common; None where they differ in length."""
        if self.block.row_ends:
            return None
        block = self.block
        nbytes = rows * self._row_bytes if block.batched else len(self._view)
        return Output(block.name, block.datatype, self._shape(rows), nbytes, not block.batched)

    def even(self, first_row: int) -> memoryview:
        """All bytes from a row on, where rows are equally long, or those that belong to every record."""
        return self._view[first_row * self._row_bytes :] if self.block.batched else self._view

    def data(self, first: int, rows: int) -> memoryview:
        if not self.block.batched:
            return self._view
        ends = self.block.row_ends
        if ends:
            return self._view[ends[first - 1] if first else 0 : ends[first + rows - 1]]
        return self._view[first * self._row_bytes : (first + rows) * self._row_bytes]

    def _shape(self, rows: int) -> tuple[int, ...]:
        return (rows, *self.block.shape) if self.block.batched else self.block.shape


def written(
    ids: Sequence[bytes],
    model: str,
    version: str,
    parameters: Mapping[str, Any],
    cuts: Sequence[Cut],
    first_row: int,
    rows: int,
) -> Sequence[bytes | HeadraceError]:
    """The record values for requests of `rows` rows each, side by side from `first_row` on; or why there is none.

    `ids` are in UTF-8.
    """
    encoded = Raw(encode(parameters))
    outputs = [output for cut in cuts if (output := cut.output(rows)) is not None]
    if len(outputs) == len(cuts):
        try:
            return RepliesAlike(model, version, encoded, outputs).encode(ids, [cut.even(first_row) for cut in cuts])
        except HeadraceError:
            pass  # each gets it with its own id
    values: list[bytes | HeadraceError] = []
    for place, id in enumerate(ids):
        try:
            exts = {cut.block.name: cut.ext(first_row + place * rows, rows) for cut in cuts}
            values.append(encode_reply(id.decode(), model, version, exts, encoded))
        except HeadraceError as err:
            values.append(err)
    return values


def formed(
    form: AnyForm,
    id: str,
    model: str,
    version: str,
    parameters: Mapping[str, Any],
    cuts: Sequence[Cut],
    first_row: int,
    rows: int,
    *,
    record_bytes: int,
    most_bytes: int,
) -> bytes | HeadraceError:
    """As `written`, for one request in any form. `record_bytes` fit a record, `most_bytes` what it may be stored in."""
    tensors = {cut.block.name: cut.tensor(first_row, rows) for cut in cuts}
    nbytes = sum(len(tensor.data) for tensor in tensors.values())
    is_json = form is Form.JSON
    # No JSON text is shorter than a quarter of the bytes; writing out what cannot be sent would hold up the loop.
    if (is_json and nbytes > MAX_JSON_TENSOR_BYTES) or nbytes // 4 > most_bytes:
        return too_large(nbytes, record_bytes, is_json=is_json and nbytes > MAX_JSON_TENSOR_BYTES)
    try:
        return result_value(form, id, model, version, tensors, parameters)
    except HeadraceError as err:  # the model gave names that no reply can hold
        return err


def too_large(nbytes: int, most: int, *, is_json: bool = False) -> PayloadTooLarge:
    """What is answered in place of a reply of so many bytes, where a record holds `most`, or it would be JSON."""
    if is_json:
        return PayloadTooLarge(
            f"the reply takes {nbytes} bytes, more than the {MAX_JSON_TENSOR_BYTES} that are written as JSON: ask in "
            "MessagePack, or for fewer rows or fewer outputs"
        )
    return PayloadTooLarge(
        f"the reply takes {nbytes} bytes, more than the {most} that a record may hold: ask for fewer rows or fewer "
        "outputs, let it go to S3 (HEADRACE_S3_CLAIM_BUCKET of the worker), or raise max_record_bytes here and on the "
        "broker"
    )


def neighbours_alike(works: Sequence[Work]) -> Iterable[Sequence[Work]]:
    """Neighbours whose results differ in id and in content alone; the records of one haul arrived together."""
    first, start = works[0], 0
    rows, arrived, form, outputs = first.rows, first.arrived, first.request.form, first.request.outputs
    for place, work in enumerate(works):
        request = work.request
        if work.arrived != arrived or work.rows != rows or request.form is not form or request.outputs != outputs:
            yield works[start:place]
            start, rows, arrived, form, outputs = place, work.rows, work.arrived, request.form, request.outputs
    yield works[start:]
