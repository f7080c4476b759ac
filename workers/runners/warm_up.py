"""What a model is warmed up with: zeros of the shapes that it will meet. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from producer_sdk.tensors import Array, Datatype, item_bytes, numpy_dtype

from .engine import TensorSpec
from .made import make_input
from .variable import Variable, variable_of

WARM_UP_BYTES = 64 * 1024 * 1024
_TEXT_BYTES = 16  # what an element of BYTES counts


def warm_ups(inputs: tuple[TensorSpec, ...], max_rows: int) -> Iterator[dict[str, Array]]:
    """Inputs of one row in each padded size, and of a full batch in the smallest, as long as they are not too large.

    Variable dimensions are taken as 1 where they are not padded.
    """
    variable = variable_of(inputs)
    steps = max([len(spec.pad_to) for spec in inputs], default=0) or 1
    for rows, step in dict.fromkeys([(1, 0), (max_rows, 0), *((1, step) for step in range(1, steps))]):
        if sum(_nbytes(spec, rows, step, variable) for spec in inputs) <= WARM_UP_BYTES:
            yield _zeros_of(inputs, rows, step, variable)


def _zeros_of(inputs: Sequence[TensorSpec], rows: int, step: int, variable: Variable | None) -> dict[str, Array]:
    arrays = {spec.name: _zeros(spec, rows, step, variable) for spec in inputs}
    for made in variable.made if variable else ():
        assert variable is not None, "it has made inputs"
        arrays[made.spec.name] = make_input(made, (1,) * rows, [(1,) * len(variable.sizes)] * rows)
    return arrays


def _zeros(spec: TensorSpec, rows: int, step: int, variable: Variable | None) -> Array:
    """A mask is of ones: some models divide by how many there are."""
    shape = _shape(spec, rows, step, variable)
    real: object = 1 if variable and spec.name in variable.masks else 0
    fill = b"" if spec.datatype is Datatype.BYTES else real
    array: Array = np.full(shape, fill, dtype=numpy_dtype(spec.datatype))
    return np.ascontiguousarray(np.moveaxis(array, 0, spec.batch_axis)) if spec.batch_axis else array


def _shape(spec: TensorSpec, rows: int, step: int, variable: Variable | None) -> tuple[int, ...]:
    """Rows first; a ragged input has each row's one element end to end."""
    if not spec.batched:
        return tuple(1 if size == -1 else size for size in spec.shape)
    if spec.ragged:
        return (rows, *spec.shape[1:])
    if variable is None or spec.name not in variable.own:
        return (rows, *[1 if size == -1 else size for size in spec.shape])
    sizes = [size.pad_to[min(step, len(size.pad_to) - 1)] if size.pad_to else 1 for size in variable.sizes]
    return variable.shape(spec, rows, sizes)


def _nbytes(spec: TensorSpec, rows: int, step: int, variable: Variable | None) -> int:
    return math.prod(_shape(spec, rows, step, variable)) * (item_bytes(spec.datatype) or _TEXT_BYTES)
