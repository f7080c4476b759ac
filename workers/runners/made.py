"""The inputs of a batch that no request holds: where the rows of a ragged input begin and end. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from producer_sdk.tensors import Array, numpy_dtype

from .variable import MadeInput, Making


def make_input(made: MadeInput, records: Sequence[int], sizes: Sequence[tuple[int, ...]]) -> Array:
    """The input for records of so many rows, whose `Variable.sizes` are given."""
    lengths = np.repeat(np.array([real[made.place] for real in sizes], np.int64), records)
    if made.making is Making.LENGTHS:
        values = lengths
    else:
        values = np.cumsum(lengths)
        if made.making is Making.OFFSETS:
            values = np.concatenate([np.zeros(1, np.int64), values])
    array: Array = values.astype(numpy_dtype(made.spec.datatype))
    return array.reshape(-1, 1) if made.spec.shape == (1,) else array
