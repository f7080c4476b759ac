"""Runs requests as a worker would, here and now: placed in memory, run by a session, sorted by record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from headrace.invariance_samples import Sample
from producer_sdk.broker import Record
from producer_sdk.errors import HeadraceError
from producer_sdk.tensors import Array, Tensor
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.runners.answers import read_answer
from workers.runners.engine import Loaded, ModelSpec, Signature
from workers.runners.load import DEFAULT_MAX_BATCH_BYTES, make_engine
from workers.runners.placing import place
from workers.runners.session import Session
from workers.runners.shm import Heap
from workers.work import Answer, Batch, Source, Work

Outputs = Mapping[str, Array]


class Bench:
    """One loaded model. `pad_to` of its inputs can be set anew for each run."""

    def __init__(self, spec: ModelSpec) -> None:
        """Load the model. Raises LoadFailed."""
        self._spec = spec
        self._engine = make_engine(spec.engine)
        self.loaded = self._engine.load(spec)
        self._sessions: dict[tuple[int, ...] | None, tuple[Session, Signature]] = {}

    def close(self) -> None:
        self._engine.close()

    def run(self, samples: Sequence[Sample], pad_to: tuple[int, ...] | None = None) -> list[Outputs | HeadraceError]:
        """What comes of each sample in one batch of all.

        `pad_to` takes the place of that of every padded input; empty pads nothing, None leaves it.
        """
        session, signature = self._session(pad_to)
        works = tuple(map(_work, samples))
        inputs, outputs = Heap(), Heap()
        try:
            batch = Batch.of(works)
            placement = place(batch, signature.inputs, inputs, DEFAULT_MAX_BATCH_BYTES)
            done = session.run(placement.run(1, 0, 0, 0, len(works)), inputs.view, outputs)
        except HeadraceError as err:
            return [err] * len(works)
        return _by_record(read_answer(done, signature.outputs, outputs.view), [work.rows for work in works])

    def _session(self, pad_to: tuple[int, ...] | None) -> tuple[Session, Signature]:
        if pad_to not in self._sessions:
            inputs = self.loaded.signature.inputs
            if pad_to is not None:
                inputs = tuple(replace(spec, pad_to=pad_to) if spec.pad_to else spec for spec in inputs)
            if pad_to == ():
                inputs = tuple(replace(spec, mask=None) for spec in inputs)
            signature = Signature(inputs, self.loaded.signature.outputs)
            loaded: Loaded = replace(self.loaded, signature=signature)
            self._sessions[pad_to] = Session(self._engine, self._spec, loaded, DEFAULT_MAX_BATCH_BYTES), signature
        return self._sessions[pad_to]


def _work(sample: Sample) -> Work:
    """A request as it lies ready to run; where it came from is of no matter here."""
    nbytes = sum(len(tensor.data) for tensor in sample.inputs.values())
    nowhere = cast(Source, None), cast(Record, None)
    return Work(Request("sample", dict(sample.inputs)), *nowhere, Lane.ASYNC, sample.rows, nbytes, (), 0.0, None)


def _by_record(answer: Answer, rows: Sequence[int]) -> list[Outputs | HeadraceError]:
    """Copied out of the memory."""
    if answer.error is not None:
        return [answer.error] * len(rows)
    records: list[Outputs | HeadraceError] = []
    for part in answer.parts:
        if part.error is not None:
            records.append(part.error)
            continue
        arrays = {
            block.name: Tensor(
                block.datatype, (part.rows, *block.shape) if block.batched else block.shape, bytes(block.data)
            ).to_array()
            for block in part.blocks
        }
        batched = {block.name for block in part.blocks if block.batched}
        row = 0
        for count in rows[len(records) : len(records) + part.records]:
            records.append(
                {name: each[row : row + count] if name in batched else each for name, each in arrays.items()}
            )
            row += count
    return records
