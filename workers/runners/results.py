"""Checks what a model gave against what it declares, and sorts it by record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from producer_sdk.errors import InferenceFailed, InvalidRequest
from producer_sdk.tensors import Array, Datatype, datatype_of, numpy_dtype

from .engine import RowItem, TensorSpec
from .faults import is_sticky, mishap_of
from .messages import Mishap

Arrays = tuple[Array, ...]
NO_LEADS: Mapping[str, int] = {}
# By kind of dtype: kinds of Python numbers that become it without loss of meaning. V is bfloat16.
_TAKES = {"f": "fiu", "V": "fiu", "i": "iu", "u": "iu"}


class _BadRow(Exception):
    """The model's own word that a row failed."""

    def __init__(self, mishap: Mishap) -> None:
        super().__init__(mishap.message)
        self.mishap = mishap


class Stack(Struct, frozen=True):
    """Consecutive records whose outputs are stacked, in the order of the signature; or the error of one record."""

    records: int
    rows: int
    arrays: Arrays = ()
    error: Mishap | None = None


class Results:
    """Sorts the results of one model."""

    def __init__(self, outputs: Sequence[TensorSpec]) -> None:
        self._specs = tuple(outputs)
        self._names = {spec.name for spec in outputs}
        self._dtypes = [numpy_dtype(spec.datatype) for spec in outputs]

    def sort(self, result: object, records: Sequence[int], leads: Mapping[str, int] = NO_LEADS) -> list[Stack]:
        """Stacks that cover the records (given by their rows) in order, rows first.

        `leads` says what leads the shape of an output whose rows lie end to end, in a dict of arrays.

        Raises:
            InferenceFailed: the result as a whole is not what the model declares.
        """
        rows = sum(records)
        if isinstance(result, Mapping):
            return [Stack(len(records), rows, self._read(result, rows, leads))]
        if not isinstance(result, list | tuple):
            raise InferenceFailed(
                f"the model gave {_a(result)}: a dict of arrays is expected, or a list with one item a row"
            )
        if len(result) != rows:
            raise InferenceFailed(f"the model gave {len(result)} items for {rows} rows: one item a row is expected")
        unbatched = next((spec.name for spec in self._specs if not spec.batched), None)
        if unbatched is not None:
            raise InferenceFailed(f"output {unbatched!r} is not batched, so a dict is expected, not one item a row")
        return self._join(self._sort_rows(result, records))

    def _read(self, result: Mapping[str, Any], rows: int | None, leads: Mapping[str, int] = NO_LEADS) -> Arrays:
        """The outputs in order; `rows` None for the item of one row."""
        if len(result) != len(self._specs) or result.keys() != self._names:
            for spec in self._specs:
                if spec.name not in result:
                    raise InferenceFailed(
                        f"the model did not give its output {spec.name!r}: it gave {sorted(map(str, result))}"
                    )
            extra = sorted(str(name) for name in result.keys() - self._names)
            raise InferenceFailed(f"the model gave an output {extra[0]!r} that it does not declare")
        return tuple(
            [
                self._check(spec, dtype, result[spec.name], rows, leads)
                for spec, dtype in zip(self._specs, self._dtypes, strict=True)
            ]
        )

    def _check(
        self, spec: TensorSpec, dtype: np.dtype[Any], value: object, rows: int | None, leads: Mapping[str, int]
    ) -> Array:
        array = value if type(value) is np.ndarray and value.dtype == dtype else _to_array(spec, dtype, value)
        shape: tuple[int, ...] = array.shape
        if rows is not None and spec.name in leads:
            _check_lead(spec, shape, leads[spec.name])
        elif rows is not None and spec.batched:
            if len(shape) <= spec.batch_axis or shape[spec.batch_axis] != rows:
                given = f"{shape[spec.batch_axis]} rows" if len(shape) > spec.batch_axis else "no row axis"
                raise InferenceFailed(f"output {spec.name!r} has {given} for a batch of {rows} rows")
            if spec.batch_axis:
                array = np.moveaxis(array, spec.batch_axis, 0)
            shape = array.shape[1:]
        if shape != spec.shape and not _fits(shape, spec.shape):
            of_row = " a row" if spec.batched else ""
            raise InferenceFailed(
                f"output {spec.name!r} has shape {list(shape)}{of_row}, but {list(spec.shape)} is declared"
            )
        return array

    def _sort_rows(self, items: Sequence[RowItem], records: Sequence[int]) -> list[Mishap | list[Arrays]]:
        sorted_records: list[Mishap | list[Arrays]] = []
        first = 0
        for rows in records:
            sorted_records.append(self._read_record(items[first : first + rows]))
            first += rows
        return sorted_records

    def _read_record(self, items: Sequence[RowItem]) -> Mishap | list[Arrays]:
        """The rows of one record, or the error of its first bad row."""
        read: list[Arrays] = []
        for row, item in enumerate(items):
            try:
                read.append(self._read_item(item))
                self._check_alike(read[0], read[-1], row)
            except _BadRow as bad:
                mishap = bad.mishap
            except InferenceFailed as err:
                mishap = mishap_of(err)
            else:
                continue
            return mishap if len(items) == 1 else replace(mishap, message=f"row {row}: {mishap.message}")
        return read

    def _read_item(self, item: RowItem) -> Arrays:
        if isinstance(item, Exception):
            if is_sticky(item):
                raise item  # no matter of a row: the whole process has lost its device
            raise _BadRow(mishap_of(item))
        if not isinstance(item, Mapping):
            raise InferenceFailed(f"the model gave {_a(item)} for a row: a dict of arrays or an exception is expected")
        return self._read(item, None)

    def _check_alike(self, first: Arrays, other: Arrays, row: int) -> None:
        for spec, one, two in zip(self._specs, first, other, strict=True):
            if one.shape != two.shape:
                raise InferenceFailed(
                    f"output {spec.name!r} has shape {list(two.shape)}, but {list(one.shape)} in row 0: "
                    "the rows of one record must agree"
                )

    def _join(self, records: Sequence[Mishap | list[Arrays]]) -> list[Stack]:
        """Stack consecutive records of equal shapes; each error stands alone."""
        stacks: list[Stack] = []
        for _, group in groupby(enumerate(records), key=lambda numbered: _kind(*numbered)):
            members = [record for _, record in group]
            first = members[0]
            if isinstance(first, Mishap):
                stacks.append(Stack(1, 0, error=first))
                continue
            rows = [arrays for record in members if isinstance(record, list) for arrays in record]
            stacked = tuple(np.stack([arrays[index] for arrays in rows]) for index in range(len(self._specs)))
            stacks.append(Stack(len(members), len(rows), stacked))
        return stacks


def _kind(place: int, record: Mishap | list[Arrays]) -> object:
    """Neighbours of one kind can be stacked; an error is of a kind of its own."""
    return place if isinstance(record, Mishap) else tuple(array.shape for array in record[0])


def _check_lead(spec: TensorSpec, shape: tuple[int, ...], lead: int) -> None:
    if shape[:1] != (lead,):
        raise InferenceFailed(
            f"output {spec.name!r} has shape {list(shape)}, but the records that it is divided among are "
            f"{lead} long together: it is cut like input {spec.cut_like!r}"
        )


def _fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    return len(shape) == len(declared) and all(d in (-1, s) for s, d in zip(shape, declared, strict=True))


def _to_array(spec: TensorSpec, dtype: np.dtype[Any], value: object) -> Array:
    """The value as an array of the declared dtype; plain Python numbers have no dtype of their own and take it."""
    try:
        if spec.datatype is Datatype.BYTES:
            return _to_bytes_array(value)
        array = np.asarray(value)
        is_plain = isinstance(value, int | float | list | tuple)
        if is_plain and array.dtype != dtype and array.dtype.kind in _TAKES.get(dtype.kind, ""):
            return np.asarray(value, dtype=dtype)
        given = datatype_of(array.dtype)
    except (ValueError, TypeError, OverflowError, RuntimeError, InvalidRequest) as err:
        raise InferenceFailed(f"output {spec.name!r} is no array that can be sent: {err}") from err
    if given is not spec.datatype:
        raise InferenceFailed(f"output {spec.name!r} is {given}, but {spec.datatype} is declared")
    return array


def _to_bytes_array(value: object) -> Array:
    """Texts as an object array; NumPy's own bytes dtype would lose trailing zero bytes."""
    if isinstance(value, bytes | bytearray | str):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    array = np.asarray(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    if array.dtype.kind not in "OSU":
        raise TypeError(f"BYTES is declared, but it holds {array.dtype}")
    return array


def _a(value: object) -> str:
    return f"a value of type {type(value).__name__}"
