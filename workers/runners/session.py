"""One loaded model and what a run of it takes: inputs out of memory, the model, checked outputs into memory.

Runs wherever the model does: in the runner process, or in the thread of an inline runner.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

import numpy as np

from producer_sdk.errors import InferenceFailed, InvalidRequest, PayloadTooLarge
from producer_sdk.tensors import Array, Datatype, numpy_dtype, pack_bytes, unpack_bytes
from producer_sdk.wire import Scalar

from .cutting import Cutter
from .engine import Engine, Loaded, ModelSpec, TensorSpec
from .faults import is_sticky, mishap_of, words_of
from .made import make_input
from .messages import HEAD_BYTES, Done, Piece, Place, Run, Written, aligned
from .results import Results, Stack
from .shm import Memory
from .variable import variable_of

_log = logging.getLogger("headrace.runner")


class ContextLost(Exception):
    """The device is lost to this process: nothing that it runs from now on can succeed."""


class Session:
    """Runs batches of one model. One thread uses it."""

    def __init__(self, engine: Engine, spec: ModelSpec, loaded: Loaded, max_batch_bytes: int) -> None:
        self._engine = engine
        self._label = f"{spec.name}:{spec.version}"
        self._max_batch_bytes = max_batch_bytes
        inputs, self._outputs = loaded.signature.inputs, loaded.signature.outputs
        variable = variable_of(inputs)
        self._inputs = [(spec, numpy_dtype(spec.datatype)) for spec in (variable.asked if variable else inputs)]
        self._made = variable.made if variable else ()
        self._pid = os.getpid()
        self._results = Results(self._outputs)
        self._cutter = Cutter(variable, self._outputs)

    def run(self, run: Run, inputs: memoryview, outputs: Memory) -> Done:
        """Run records whose inputs lie in the memory; the outputs are written behind `HEAD_BYTES` of `outputs`.

        Raises:
            ContextLost: the device is lost; end the process.
        """
        began = time.perf_counter()
        try:
            result = self._engine.run(self.read(run, inputs), _per_row(run))
            if os.getpid() != self._pid:
                os._exit(0)  # a child that model code forked came back: the memory and the socket are its parent's
            pieces = self._write(self._sort(result, run), outputs)
        except BaseException as err:
            if os.getpid() != self._pid:
                os._exit(1)
            if is_sticky(err):
                raise ContextLost(f"{type(err).__name__}: {words_of(err)}") from err
            # A batch that fails is split until the record at fault runs alone: then is soon enough to log.
            if len(run.records) == 1:
                _log.warning("Model %s failed on a record", self._label, exc_info=err, extra={"action": "run_failed"})
            return Done(run.sequence, time.perf_counter() - began, len(outputs.view), (), mishap_of(err))
        return Done(run.sequence, time.perf_counter() - began, len(outputs.view), pieces)

    def read(self, run: Run, memory: memoryview) -> dict[str, Array]:
        """Read-only arrays over the memory: a model that wrote to its inputs would spoil a second run of the batch."""
        arrays: dict[str, Array] = {}
        for (spec, dtype), place in zip(self._inputs, run.inputs, strict=True):
            data = memory[place.offset : place.offset + place.nbytes]
            if spec.datatype is Datatype.BYTES:
                array: Array = np.empty(math.prod(place.shape), dtype=object)
                array[:] = unpack_bytes(data, len(array))
            else:
                array = np.frombuffer(data.toreadonly(), dtype)
            array = array.reshape(place.shape)
            arrays[spec.name] = np.moveaxis(array, 0, spec.batch_axis) if spec.batch_axis else array
        for made in self._made:
            arrays[made.spec.name] = make_input(made, run.records, run.sizes)
        return arrays

    def _sort(self, result: object, run: Run) -> list[Stack]:
        if not self._cutter:
            return self._results.sort(result, run.records)
        stacks = self._results.sort(result, run.records, self._cutter.leads(run))
        return self._cutter.cut(stacks, run, end_to_end=isinstance(result, Mapping))

    def _write(self, stacks: Sequence[Stack], outputs: Memory) -> tuple[Piece, ...]:
        """Lay out everything first, so that the memory grows at most once."""
        end, laid_out = HEAD_BYTES, []
        for stack in stacks:
            outs: list[_Output] = []
            for index, array in enumerate(stack.arrays):
                outs.append(_Output(index, self._outputs[index], array, aligned(end)))
                end = outs[-1].end
            laid_out.append(outs)
        if end > self._max_batch_bytes:
            raise PayloadTooLarge(
                f"the outputs take {end} bytes: those of a batch take at most {self._max_batch_bytes}"
            )
        outputs.reserve(end)
        return tuple(
            Piece(stack.records, stack.rows, tuple([out.write(outputs.view) for out in outs]), stack.error)
            for stack, outs in zip(stacks, laid_out, strict=True)
        )


class _Output:
    """One output on its way into memory."""

    __slots__ = ("_array", "_dtype", "_index", "_offset", "_row_ends", "_shape", "end")

    def __init__(self, index: int, spec: TensorSpec, array: Array, offset: int) -> None:
        self._index = index
        self._offset = offset
        self._shape = array.shape[1:] if spec.batched else array.shape
        self._row_ends: tuple[int, ...] = ()
        self._array: Array | bytes = array
        self._dtype = numpy_dtype(spec.datatype)
        nbytes = array.nbytes
        if spec.datatype is Datatype.BYTES:
            self._array, self._row_ends = _pack(spec, array)
            nbytes = len(self._array)
        self.end = offset + nbytes

    def write(self, view: memoryview) -> Written:
        array, offset = self._array, self._offset
        if isinstance(array, bytes):
            view[offset : self.end] = array
        elif array.size:
            np.frombuffer(view, self._dtype, array.size, offset).reshape(array.shape)[...] = array
        return Written(self._index, Place(offset, self.end - offset, self._shape), self._row_ends)


def _pack(spec: TensorSpec, array: Array) -> tuple[bytes, tuple[int, ...]]:
    """All elements as BYTES data, and where each row's end; an unbatched tensor has no rows."""
    try:
        if not spec.batched:
            return pack_bytes(array.reshape(-1).tolist()), ()
        rows = [pack_bytes(row.reshape(-1).tolist()) for row in array.reshape(len(array), math.prod(array.shape[1:]))]
    except InvalidRequest as err:
        raise InferenceFailed(f"output {spec.name!r}: {err.message}") from err
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return b"".join(rows), tuple(ends)


def _per_row(run: Run) -> list[Mapping[str, Scalar]]:
    """One dict a row: a record's parameters hold for each of its rows."""
    if not run.parameters:
        return [{} for _ in range(sum(run.records))]
    return list(chain.from_iterable(map(repeat, run.parameters, run.records)))
