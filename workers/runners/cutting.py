"""Cuts what padding made of outputs off again, and divides among the records what lies end to end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from producer_sdk.errors import InferenceFailed
from producer_sdk.tensors import Array

from .engine import TensorSpec
from .messages import Run
from .results import Stack
from .variable import Variable


class _Cut(Struct, frozen=True, gc=False):
    """How one output follows an input.

    Attributes:
        output: its place in the signature.
        source: the input's place among those that are copied.
        axes: of the output with rows first, those that vary.
        source_axes: of the input, those that these follow.
        places: of these the places in `Variable.sizes`.
        ragged: the output's rows lie end to end.
    """

    output: int
    source: int
    axes: tuple[int, ...]
    source_axes: tuple[int, ...]
    places: tuple[int, ...]
    ragged: bool


class Cutter:
    """Cuts the outputs of one model."""

    def __init__(self, variable: Variable | None, outputs: Sequence[TensorSpec]) -> None:
        self._outputs = tuple(outputs)
        self._cuts: dict[int, _Cut] = {}
        for place, spec in enumerate(outputs):
            if variable is not None and spec.cut_like in variable.own:
                self._cuts[place] = _cut(place, spec, variable)
        self._places = tuple(sorted({at for cut in self._cuts.values() for at in cut.places}))

    def __bool__(self) -> bool:
        """Whether there is anything to cut."""
        return bool(self._cuts)

    def leads(self, run: Run) -> dict[str, int]:
        """What must lead the shapes of outputs whose rows lie end to end, by name."""
        return {
            self._outputs[cut.output].name: sum(
                [rows * real[cut.places[0]] for rows, real in zip(run.records, run.sizes, strict=True)]
            )
            for cut in self._cuts.values()
            if cut.ragged
        }

    def cut(self, stacks: list[Stack], run: Run, *, end_to_end: bool) -> list[Stack]:
        """Stacks of records whose real sizes agree. `end_to_end`: ragged outputs are still in one piece.

        Raises:
            InferenceFailed: an output has not the size that its input was padded to.
        """
        cut: list[Stack] = []
        first = 0
        for stack in stacks:
            if stack.error is not None:
                cut.append(stack)
            else:
                self._check(stack, run)
                cut.extend(self._cut_stack(stack, run, first, end_to_end))
            first += stack.records
        return cut

    def _cut_stack(self, stack: Stack, run: Run, first: int, end_to_end: bool) -> Iterator[Stack]:
        row, leads = 0, dict.fromkeys(self._cuts, 0)
        records = range(first, first + stack.records)
        for sizes, group in groupby(records, key=lambda record: self._sizes_of(run, record)):
            members = list(group)
            rows = sum([run.records[record] for record in members])
            arrays: list[Array] = []
            for place, array in enumerate(stack.arrays):
                cut = self._cuts.get(place)
                if not self._outputs[place].batched:
                    arrays.append(array)
                elif cut is None or (cut.ragged and not end_to_end):
                    arrays.append(array[row : row + rows])
                elif cut.ragged:
                    length, lead = sizes[cut.places[0]], leads[place]
                    leads[place] = lead + rows * length
                    arrays.append(array[lead : leads[place]].reshape(rows, length, *array.shape[1:]))
                else:
                    arrays.append(array[_corner(cut, row, rows, sizes, array.ndim)])
            row += rows
            yield Stack(len(members), rows, tuple(arrays))

    def _sizes_of(self, run: Run, record: int) -> dict[int, int]:
        real = run.sizes[record]
        return {place: real[place] for place in self._places}

    def _check(self, stack: Stack, run: Run) -> None:
        for cut in self._cuts.values():
            if cut.ragged:
                continue
            shape, padded = stack.arrays[cut.output].shape, run.inputs[cut.source].shape
            for axis, source_axis in zip(cut.axes, cut.source_axes, strict=True):
                if shape[axis] != padded[source_axis]:
                    spec = self._outputs[cut.output]
                    raise InferenceFailed(
                        f"output {spec.name!r} has shape {list(shape[1:])} a row: it cannot be cut like input "
                        f"{spec.cut_like!r}, which was padded to {padded[source_axis]}"
                    )


def _cut(place: int, spec: TensorSpec, variable: Variable) -> _Cut:
    source = next(at for at, asked in enumerate(variable.asked) if asked.name == spec.cut_like)
    axes = tuple(axis for axis, length in enumerate(spec.shape, start=1) if length == -1)
    places = variable.own[variable.asked[source].name]
    if len(places) == 1:
        places *= len(axes)
    source_axes = tuple(variable.sizes[at].axis for at in places)
    return _Cut(place, source, axes, source_axes, places, variable.asked[source].ragged)


def _corner(cut: _Cut, row: int, rows: int, sizes: dict[int, int], dimensions: int) -> tuple[slice, ...]:
    corner = [slice(row, row + rows), *[slice(None)] * (dimensions - 1)]
    for axis, place in zip(cut.axes, cut.places, strict=True):
        corner[axis] = slice(0, sizes[place])
    return tuple(corner)
