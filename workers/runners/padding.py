"""Rows that are padded to one shape: copied once each into the batch, what is left of the block is filled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from producer_sdk.tensors import Buffer, Datatype, Tensor, item_bytes, numpy_dtype

from .engine import TensorSpec


class PaddedColumn:
    """One padded input of a batch.

    Attributes:
        shape: of the block, rows first.
        elements: its elements.
        padding: those of them that are padding.
    """

    __slots__ = ("_datatype", "_pad", "_tensors", "elements", "padding", "shape")

    def __init__(self, spec: TensorSpec, tensors: Sequence[Tensor], shape: tuple[int, ...]) -> None:
        self._datatype = spec.datatype
        self._tensors = tensors
        self._pad = spec.pad_value
        self.shape = shape
        self.elements = math.prod(shape)
        self.padding = self.elements - sum([len(tensor.data) for tensor in tensors]) // item_bytes(spec.datatype)

    def copy(self, view: memoryview, offset: int) -> None:
        """Write the block into the memory at `offset`."""
        shape = self.shape
        unit = np.dtype(f"u{item_bytes(self._datatype)}")
        block = np.frombuffer(view, unit, math.prod(shape), offset).reshape(shape)
        block.fill(pattern(self._datatype, self._pad))
        row_bytes, inner = block.strides[0], shape[2:]
        at = offset
        for tensor in self._tensors:
            real = tensor.shape
            if real[0] == 1 and real[2:] == inner:  # its bytes lie together in the block, too
                data = tensor.data
                view[at : at + len(data)] = data
            else:
                row = (at - offset) // row_bytes
                block[_corner(row, real)] = np.frombuffer(tensor.data, unit).reshape(real)
            at += real[0] * row_bytes


class MaskColumn:
    """The mask of padded inputs: as the requests give it, padded with 0; 1 for what is real where they do not."""

    __slots__ = ("_given", "_rows", "_sizes", "_spec", "elements", "padding", "shape")

    def __init__(
        self,
        spec: TensorSpec,
        given: Sequence[Tensor | None],
        shape: tuple[int, ...],
        rows: Sequence[int],
        sizes: Sequence[tuple[int, ...]],
    ) -> None:
        """`rows` of each request, and what is real of it along the variable dimensions of the mask."""
        self._spec = spec
        self._given = given
        self._rows = rows
        self._sizes = sizes
        self.shape = shape
        self.elements = self.padding = 0

    def copy(self, view: memoryview, offset: int) -> None:
        """Write the block into the memory at `offset`."""
        datatype = self._spec.datatype
        unit = np.dtype(f"u{item_bytes(datatype)}")
        block = np.frombuffer(view, unit, math.prod(self.shape), offset).reshape(self.shape)
        one = pattern(datatype, 1.0)
        if block.ndim == 2 and not any(self._given):
            of_rows = np.repeat(np.array(self._sizes), self._rows, axis=0)
            np.multiply(np.arange(block.shape[1]) < of_rows, unit.type(one), out=block)
            return
        block.fill(0)
        row = 0
        for tensor, rows, sizes in zip(self._given, self._rows, self._sizes, strict=True):
            if tensor is None:
                own = iter(sizes)
                real = (rows, *[next(own) if length == -1 else length for length in self._spec.shape])
                block[_corner(row, real)] = one
            else:
                block[_corner(row, tensor.shape)] = np.frombuffer(tensor.data, unit).reshape(tensor.shape)
            row += rows


def _corner(row: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Where rows of this shape lie in a block of larger ones, from this row on."""
    return (slice(row, row + shape[0]), *map(slice, shape[1:]))


@lru_cache(maxsize=256)
def pattern(datatype: Datatype, value: float) -> int:
    """A number in this datatype, as the unsigned integer of the same bytes."""
    if datatype is Datatype.BF16:
        return int(np.array(value, np.float32).view(np.uint32)) >> 16
    return int(np.array(value, numpy_dtype(datatype)).view(f"u{item_bytes(datatype)}"))


def padded_texts(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A BYTES tensor padded with empty elements to rows of this shape, which is without the rows.

    What it costs follows from the elements that are there: a few may be padded to millions.
    """
    rows, *real = tensor.shape
    if tuple(real) == shape:
        return tensor
    runs = _runs(tensor.data, math.prod(tensor.shape[:-1]), real[-1])
    pieces: list[Buffer] = []
    for _ in range(rows):
        _pad_texts(runs, real, shape, pieces)
    return Tensor(tensor.datatype, (rows, *shape), b"".join(pieces))


def _runs(data: Buffer, count: int, length: int) -> Iterator[memoryview]:
    """The bytes of so many runs of `length` elements, which lie one behind the other."""
    view, at = memoryview(data), 0
    for _ in range(count):
        first = at
        for _ in range(length):
            at += 4 + int.from_bytes(view[at : at + 4], "little")
        yield view[first:at]


def _pad_texts(runs: Iterator[Buffer], real: Sequence[int], shape: Sequence[int], pieces: list[Buffer]) -> None:
    """Append a block of the shape `real`, padded to `shape`; an empty element is its length, four zeros."""
    if len(real) == 1:
        pieces.append(next(runs))
    else:
        for _ in range(real[0]):
            _pad_texts(runs, real[1:], shape[1:], pieces)
    pieces.append(bytes(4 * (shape[0] - real[0]) * math.prod(shape[1:])))
