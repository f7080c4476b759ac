"""Copies a batch's inputs side by side, and says where the rows of each record lie. Runs in the worker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from producer_sdk.tensors import Datatype, item_bytes
from producer_sdk.wire import Scalar

from ..work import Batch
from .columns import Column, check_bytes, columns_of
from .engine import Loaded, LoadFailed, TensorSpec
from .messages import ALIGNMENT, Place, Run, aligned
from .padding import MaskColumn, PaddedColumn
from .shm import Memory


class _Placed(Struct, frozen=True, gc=False):
    """One input of the batch.

    Attributes:
        place: where the whole lies.
        batched: it has rows.
        row_bytes: of each row; 0 where they differ and `ends` tells where each record's end.
        leads: what leads the shape before each record, and at the end, of rows that are laid end to end; else empty.
    """

    place: Place
    batched: bool
    row_bytes: int = 0
    ends: tuple[int, ...] = ()
    leads: tuple[int, ...] = ()

    def of(self, first: int, last: int, first_row: int, last_row: int) -> Place:
        """Where the rows of the records `first` to `last` lie."""
        place = self.place
        if not self.batched:
            return place
        lead = self.leads[last] - self.leads[first] if self.leads else last_row - first_row
        shape = (lead, *place.shape[1:])
        if not self.ends:
            offset = place.offset + first_row * self.row_bytes
            return Place(offset, (last_row - first_row) * self.row_bytes, shape)
        offset = self.ends[first - 1] if first else place.offset
        return Place(offset, self.ends[last - 1] - offset, shape)


class Padded(Struct, frozen=True, gc=False):
    """Of the padded inputs of a batch, masks left out: all elements, and those that are padding."""

    elements: int
    padding: int


class Placement(Struct, frozen=True, gc=False):
    """A batch that lies ready. `starts` holds the row at which each record begins, and the end.

    Attributes:
        sizes: of each record the real sizes, as of `Variable.sizes`; empty where nothing is padded or ragged.
        elements: elements of the inputs that are padded, masks left out.
        padding: those of them that are padding.
    """

    records: tuple[int, ...]
    starts: Sequence[int]
    inputs: tuple[_Placed, ...]
    parameters: tuple[Mapping[str, Scalar], ...]
    sizes: tuple[tuple[int, ...], ...] = ()
    elements: int = 0
    padding: int = 0

    @property
    def padded(self) -> Padded | None:
        """What of it is padding; None where no input is padded."""
        return Padded(self.elements, self.padding) if self.elements else None

    def run(self, sequence: int, slot: int, size: int, first: int, last: int) -> Run:
        """The message that runs the records `first` to `last` (not included)."""
        first_row, last_row = self.starts[first], self.starts[last]
        inputs = tuple([placed.of(first, last, first_row, last_row) for placed in self.inputs])
        records, sizes = self.records[first:last], self.sizes[first:last]
        return Run(sequence, slot, size, records, inputs, self.parameters[first:last], sizes)


def place(batch: Batch, specs: tuple[TensorSpec, ...], memory: Memory, max_bytes: int) -> Placement:
    """Copy the batch's inputs into the memory.

    Raises:
        PayloadTooLarge: they take more than `max_bytes`.
        OutOfMemory: there is no memory for them.
        ValueError: requests that cannot share a batch are in it.
    """
    works, rows = batch.works, batch.rows
    columns = columns_of(works, rows, specs, max_bytes)
    placed, end = [], 0
    for spec, column in zip(columns.specs, columns.columns, strict=True):
        item = _lay_out(spec, column, rows, aligned(end))
        placed.append(item)
        end = item.place.offset + item.place.nbytes
    check_bytes(rows, end, max_bytes)
    memory.reserve(end)
    for item, column in zip(placed, columns.columns, strict=True):
        _copy(item, column, memory.view)
    records = tuple([work.rows for work in works])
    starts = range(rows + 1) if rows == len(works) else (0, *accumulate(records))
    parameters = tuple([work.request.parameters for work in works])
    if not any(parameters):
        parameters = ()
    return Placement(records, starts, tuple(placed), parameters, columns.sizes, columns.elements, columns.padding)


def batch_bytes(specs: Sequence[TensorSpec], rows: int) -> int:
    """Bytes of so many rows, each tensor aligned; what varies counts as nothing."""
    return sum(aligned(_fixed_bytes(spec) * (rows if spec.batched else 1)) + ALIGNMENT for spec in specs)


def fit_rows(loaded: Loaded, max_bytes: int) -> Loaded:
    """The same with `max_batch_size` lowered to what `max_bytes` can hold.

    Raises:
        LoadFailed: not even one row fits.
    """
    inputs, rows = loaded.signature.inputs, loaded.max_batch_size
    while rows > 1 and batch_bytes(inputs, rows) > max_bytes:
        rows = max(1, min(rows - 1, rows * max_bytes // batch_bytes(inputs, rows)))
    if batch_bytes(inputs, rows) > max_bytes:
        raise LoadFailed(f"one row of inputs takes {batch_bytes(inputs, 1)} bytes: a batch holds at most {max_bytes}")
    if rows == loaded.max_batch_size:
        return loaded
    warning = f"max_batch_size {loaded.max_batch_size} is lowered to {rows}: a batch holds at most {max_bytes} bytes"
    return replace(loaded, max_batch_size=rows, warnings=(*loaded.warnings, warning))


def _fixed_bytes(spec: TensorSpec) -> int:
    return 0 if -1 in spec.shape else math.prod(spec.shape) * item_bytes(spec.datatype)


def _lay_out(spec: TensorSpec, column: Column, rows: int, offset: int) -> _Placed:
    if isinstance(column, PaddedColumn | MaskColumn):
        row_bytes = math.prod(column.shape[1:]) * item_bytes(spec.datatype)
        return _Placed(Place(offset, row_bytes * rows, column.shape), True, row_bytes)
    shape, nbytes = column[0].shape, len(column[0].data)
    if not spec.batched:
        return _Placed(Place(offset, nbytes, shape), False)
    if spec.ragged or spec.datatype is Datatype.BYTES:
        ends = tuple(accumulate([len(tensor.data) for tensor in column], initial=offset))
        leads: tuple[int, ...] = ()
        shape = (rows, *shape[1:])
        if spec.ragged:
            leads = tuple(accumulate([tensor.shape[0] * tensor.shape[1] for tensor in column], initial=0))
            shape = (leads[-1], *shape[2:])
        return _Placed(Place(offset, ends[-1] - offset, shape), True, ends=ends[1:], leads=leads)
    row_bytes = nbytes // shape[0]
    return _Placed(Place(offset, row_bytes * rows, (rows, *shape[1:])), True, row_bytes)


def _copy(placed: _Placed, column: Column, view: memoryview) -> None:
    place = placed.place
    at, end = place.offset, place.offset + place.nbytes
    if isinstance(column, PaddedColumn | MaskColumn):
        column.copy(view, at)
        return
    if not placed.batched:
        if any(tensor.data != column[0].data for tensor in column[1:]):
            raise ValueError("requests whose unbatched inputs differ are in one batch")
        view[at:end] = column[0].data
        return
    for tensor in column:
        data = tensor.data
        until = at + len(data)
        view[at:until] = data
        at = until
    if at != end:
        raise ValueError(f"the rows of a batch take {at - place.offset} bytes instead of {place.nbytes}")
