"""Reads a runner's message about a run into the answer that the worker knows. Runs in the worker."""

from __future__ import annotations

from collections.abc import Sequence

from ..work import Answer, Block, Part
from .engine import TensorSpec
from .messages import Done, Piece, Written


def read_answer(done: Done, outputs: Sequence[TensorSpec], view: memoryview) -> Answer:
    """The answer, its blocks views of the output region.

    Raises:
        ValueError, IndexError: it tells of outputs that are not there.
    """
    if done.error is not None:
        return Answer((), done.run_s, done.error.to_error())
    return Answer(tuple([_part(piece, outputs, view) for piece in done.pieces]), done.run_s)


def _part(piece: Piece, outputs: Sequence[TensorSpec], view: memoryview) -> Part:
    if piece.error is not None:
        return Part(piece.records, piece.rows, (), piece.error.to_error())
    blocks = tuple([_block(written, outputs[written.output], view) for written in piece.outputs])
    return Part(piece.records, piece.rows, blocks)


def _block(written: Written, spec: TensorSpec, view: memoryview) -> Block:
    place = written.place
    data = view[place.offset : place.offset + place.nbytes]
    if len(data) != place.nbytes:  # a slice past the end is no error, and would be sent as an empty tensor
        raise ValueError(f"output {spec.name!r} is said to lie where the memory ends")
    return Block(spec.name, spec.datatype, place.shape, data, written.row_ends, spec.batched)
