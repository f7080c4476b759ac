"""Which dimensions of a model's inputs are padded or laid end to end, and which inputs are made of them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from producer_sdk.tensors import Tensor

from .engine import TensorSpec


class Making(StrEnum):
    """What an input that requests never hold is made of: the lengths of a ragged one."""

    LENGTHS = "lengths"  # of each row
    ENDS = "ends"  # where each row ends
    OFFSETS = "offsets"  # the same behind a 0


class Size(Struct, frozen=True, gc=False):
    """A dimension in which requests that share a batch may differ.

    Attributes:
        name: of the input.
        axis: of its tensors, whose axis 0 are the rows.
        pad_to: what it is padded to; empty where the input is ragged.
    """

    name: str
    axis: int
    pad_to: tuple[int, ...]

    def padded(self, size: int) -> int:
        """What so many elements are padded to."""
        if not self.pad_to:
            return size
        last = self.pad_to[-1]
        return self.pad_to[bisect_left(self.pad_to, size)] if size <= last else -(-size // last) * last


class MadeInput(Struct, frozen=True, gc=False):
    """An input made of the size at this place of `Variable.sizes`."""

    spec: TensorSpec
    making: Making
    place: int


class Variable(Struct, frozen=True):
    """The inputs of a model of which at least one is padded or ragged.

    Attributes:
        asked: inputs that requests hold, in the order of the signature; all but those that are made.
        masks: those of them that a request may leave out, for they say what is real.
        made: inputs that are made for the batch as a whole.
        sizes: dimensions in which requests of a batch may differ.
        own: of each input's variable dimensions, in order, the places in `sizes`; a mask's are those of its input.
    """

    asked: tuple[TensorSpec, ...]
    masks: frozenset[str]
    made: tuple[MadeInput, ...]
    sizes: tuple[Size, ...]
    own: Mapping[str, tuple[int, ...]]

    def real(self, inputs: Mapping[str, Tensor]) -> tuple[int, ...]:
        """The `sizes` of one request."""
        return tuple([inputs[size.name].shape[size.axis] for size in self.sizes])

    def padded(self, real: Sequence[int]) -> tuple[int, ...]:
        """What they are padded to."""
        return tuple([size.padded(number) for size, number in zip(self.sizes, real, strict=True)])

    def shape(self, spec: TensorSpec, rows: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Of so many rows of an input, its variable dimensions as said in `sizes`."""
        own = iter(self.own[spec.name])
        return (rows, *[sizes[next(own)] if length == -1 else length for length in spec.shape])


def variable_axes(spec: TensorSpec) -> list[int]:
    """Axes of a batched input's tensors, rows being axis 0, along which it varies."""
    return [axis for axis, length in enumerate(spec.shape, start=1) if length == -1]


def asked(inputs: tuple[TensorSpec, ...]) -> list[tuple[TensorSpec, bool]]:
    """The inputs that requests hold, and whether each may be left out."""
    variable = variable_of(inputs)
    if variable is None:
        return [(spec, False) for spec in inputs]
    return [(spec, spec.name in variable.masks) for spec in variable.asked]


def variable_of(inputs: tuple[TensorSpec, ...]) -> Variable | None:
    """None where no input is padded or ragged, as of most models."""
    for spec in inputs:
        if spec.pad_to or spec.ragged:
            return _variable_of(inputs)
    return None


@lru_cache(maxsize=64)
def _variable_of(inputs: tuple[TensorSpec, ...]) -> Variable:
    by_name = {spec.name: spec for spec in inputs}
    sizes: list[Size] = []
    own: dict[str, tuple[int, ...]] = {}
    made: list[MadeInput] = []
    masks = {spec.mask for spec in inputs if spec.mask is not None}
    for spec in inputs:
        if not spec.pad_to and not spec.ragged:
            continue
        axes = variable_axes(spec)
        own[spec.name] = tuple(range(len(sizes), len(sizes) + len(axes)))
        sizes += [Size(spec.name, axis, spec.pad_to) for axis in axes]
        if spec.mask is not None:
            own[spec.mask] = own[spec.name]
        for making in Making:
            name = getattr(spec, making)
            if name is not None:
                made.append(MadeInput(by_name[name], making, own[spec.name][0]))
    are_made = {each.spec.name for each in made}
    asked = tuple(spec for spec in inputs if spec.name not in are_made)
    return Variable(asked, frozenset(masks), tuple(made), tuple(sizes), own)
