"""The tensors of a batch, input by input, where some are padded to a common size. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from producer_sdk.errors import PayloadTooLarge
from producer_sdk.tensors import Datatype, Tensor

from ..work import Work
from .engine import TensorSpec
from .padding import MaskColumn, PaddedColumn, padded_texts
from .variable import Variable, variable_of

Column = Sequence[Tensor] | PaddedColumn | MaskColumn


class Columns(Struct, frozen=True, gc=False):
    """A batch input by input.

    Attributes:
        specs: inputs that are copied.
        columns: of each of them every request's tensor.
        sizes: of each request the real sizes, as of `Variable.sizes`; empty where nothing is padded or ragged.
        elements: elements of the inputs that are padded, masks left out.
        padding: those of them that are padding.
    """

    specs: tuple[TensorSpec, ...]
    columns: Sequence[Column]
    sizes: tuple[tuple[int, ...], ...] = ()
    elements: int = 0
    padding: int = 0


def columns_of(works: Sequence[Work], rows: int, specs: tuple[TensorSpec, ...], max_bytes: int) -> Columns:
    """What a batch copies. Requests of several buckets may be in it: all are padded to the largest.

    Raises:
        PayloadTooLarge: padded texts alone take more than `max_bytes`; numbers are not looked at here.
    """
    variable = variable_of(specs)
    if variable is None:
        return Columns(specs, [[work.request.inputs[spec.name] for work in works] for spec in specs])
    sizes = tuple([variable.real(work.request.inputs) for work in works])
    largest = variable.padded(list(map(max, zip(*sizes, strict=True))))
    columns: list[Column] = []
    elements = padding = 0
    for spec in variable.asked:
        if spec.name in variable.masks:
            columns.append(_mask(variable, spec, works, variable.shape(spec, rows, largest), sizes))
            continue
        column = [work.request.inputs[spec.name] for work in works]
        if not spec.pad_to:
            columns.append(column)
            continue
        shape = variable.shape(spec, rows, largest)
        if spec.datatype is Datatype.BYTES:
            missing = math.prod(shape) - sum([math.prod(tensor.shape) for tensor in column])
            check_bytes(rows, sum([len(tensor.data) for tensor in column]) + 4 * missing, max_bytes)
            columns.append([padded_texts(tensor, shape[1:]) for tensor in column])
            elements += math.prod(shape)
            padding += missing
            continue
        padded = PaddedColumn(spec, column, shape)
        elements += padded.elements
        padding += padded.padding
        columns.append(padded)
    return Columns(variable.asked, columns, sizes, elements, padding)


def check_bytes(rows: int, nbytes: int, max_bytes: int) -> None:
    """Raises PayloadTooLarge where the inputs of so many rows take more than a batch may."""
    if nbytes > max_bytes:
        raise PayloadTooLarge(f"the inputs of {rows} rows take {nbytes} bytes: a batch holds at most {max_bytes}")


def _mask(
    variable: Variable,
    spec: TensorSpec,
    works: Sequence[Work],
    shape: tuple[int, ...],
    sizes: Sequence[tuple[int, ...]],
) -> MaskColumn:
    given = [work.request.inputs.get(spec.name) for work in works]
    own = variable.own[spec.name]
    of_mask = sizes if len(own) == len(variable.sizes) else [tuple([real[at] for at in own]) for real in sizes]
    return MaskColumn(spec, given, shape, [work.rows for work in works], of_mask)
