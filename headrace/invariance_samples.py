"""Requests to judge a model by: made up within its signature, or read from a file. The seed is fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from headrace.failure import CommandError
from producer_sdk.errors import HeadraceError
from producer_sdk.records import decode_record
from producer_sdk.tensors import Array, Datatype, Tensor, numpy_dtype
from producer_sdk.wire import Request
from workers.runners.engine import TensorSpec
from workers.runners.variable import Variable, variable_of

SEED = 20
GROUP = 8  # requests of one size
_MOST_SIZES = 6
_FREE_SIZES = (2, 5)  # of a dimension that nothing is known of
_RAGGED_SIZES = (1, 3, 8)
_WORDS = (b"tree", b"house", b"a", b"", b"rain on the roof", "été".encode())


class Sample(Struct, frozen=True):
    """One request."""

    inputs: Mapping[str, Tensor]
    rows: int


def made_up(inputs: tuple[TensorSpec, ...]) -> list[Sample]:
    """Groups of single rows, each of other sizes: around those that are padded to, where any are."""
    rng = np.random.default_rng(SEED)
    variable = variable_of(inputs)
    asked = inputs if variable is None else variable.asked
    shared = {spec.name: _tensor(spec, spec.shape, rng) for spec in asked if not spec.batched and -1 not in spec.shape}
    steps = max(len(_sizes(spec)) for spec in asked)
    samples: list[Sample] = []
    for step in range(steps):
        for _ in range(GROUP):
            tensors = {
                spec.name: shared.get(spec.name) or _tensor(spec, _shape(spec, step, asked, variable), rng)
                for spec in asked
                if variable is None or spec.name not in variable.masks
            }
            samples.append(Sample(with_masks(tensors, variable), 1))
    return samples


def read_samples(file: Path, inputs: tuple[TensorSpec, ...]) -> list[Sample]:
    """Requests of Open Inference Protocol in a JSON file: a list of them, or one.

    Raises:
        CommandError: the file cannot be read, or holds something else.
    """
    try:
        content = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError) as err:
        raise CommandError(f"{file} cannot be read as JSON: {err}") from err
    variable = variable_of(inputs)
    return [
        _read(f"request {place} of {file}", item, variable)
        for place, item in enumerate(content if isinstance(content, list) else [content])
    ]


def with_masks(tensors: Mapping[str, Tensor], variable: Variable | None) -> dict[str, Tensor]:
    """With a mask of ones where it is left out, so that nothing has to be made where nothing is padded."""
    full = dict(tensors)
    if variable is None:
        return full
    real = variable.real(full)
    rows = full[variable.sizes[0].name].shape[0]
    for spec in variable.asked:
        if spec.name in variable.masks and spec.name not in full:
            ones = np.ones(variable.shape(spec, rows, real), numpy_dtype(spec.datatype))
            full[spec.name] = Tensor.from_array(ones)
    return full


def _read(what: str, item: object, variable: Variable | None) -> Sample:
    try:
        request = decode_record(msgspec.json.encode(item), (), "sample", 0)
    except HeadraceError as err:
        raise CommandError(f"{what} is none: {err.message}") from err
    if not isinstance(request, Request):
        raise CommandError(f"{what} is refused: {request.error.message}")
    try:
        tensors = with_masks(request.inputs, variable)
    except (KeyError, IndexError) as err:
        raise CommandError(f"{what} does not fit the model's signature: {err} is missing") from err
    rows = next(iter(tensors.values())).shape[:1] or (1,)
    return Sample(tensors, rows[0])


def _sizes(spec: TensorSpec) -> Sequence[int]:
    """Sizes of the variable dimensions of an input, to be tried one after the other."""
    if spec.pad_to:
        return list(dict.fromkeys(_around(spec.pad_to)))[:_MOST_SIZES]
    if spec.ragged:
        return _RAGGED_SIZES
    return _FREE_SIZES if -1 in spec.shape else (0,)


def _around(pad_to: Sequence[int]) -> Iterator[int]:
    """In the middle of each bucket, which is padded most, and just below its end."""
    below = 0
    for size in pad_to:
        yield max(1, (below + size) // 2)
        yield max(1, size - 1)
        below = size


def _shape(spec: TensorSpec, step: int, asked: Sequence[TensorSpec], variable: Variable | None) -> tuple[int, ...]:
    sizes = _sizes(spec)
    size = sizes[step % len(sizes)]
    shape = tuple(size if length == -1 else length for length in spec.shape)
    return (1, *shape) if spec.batched else shape


def _tensor(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Random content; whole numbers are small and not 0, for many a model looks them up in a table."""
    array: Array
    if spec.datatype is Datatype.BYTES:
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [_WORDS[place] for place in rng.integers(0, len(_WORDS), array.size)]
    elif spec.datatype is Datatype.BOOL:
        array = rng.random(shape) < 0.5
    elif "INT" in spec.datatype:
        array = rng.integers(1, 100, shape)
    else:
        array = rng.standard_normal(shape)
    return Tensor.from_array(array if array.dtype == object else array.astype(numpy_dtype(spec.datatype)))
