"""A function in place of a model, run as a worker runs one: rows placed in memory, outputs sorted by record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from producer_sdk.tensors import Array, Datatype, Tensor
from producer_sdk.wire import Scalar
from workers.runners.answers import read_answer
from workers.runners.engine import Loaded, ModelSpec, RowItem, Signature, TensorSpec
from workers.runners.placing import Placement, place
from workers.runners.session import Session
from workers.runners.shm import Heap
from workers.work import Answer, Part, Work

MAX_BYTES = 1 << 24
Model = Callable[[Mapping[str, Array]], Mapping[str, Array] | Sequence[RowItem]]


class FunctionEngine:
    """An engine whose model is a function of its inputs; `seen` keeps what it was given."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.seen: list[dict[str, Array]] = []

    def load(self, spec: ModelSpec) -> Loaded:
        raise AssertionError("there is nothing to load")

    def run(
        self, inputs: Mapping[str, Array], parameters: Sequence[Mapping[str, Scalar]]
    ) -> Mapping[str, Array] | Sequence[RowItem]:
        self.seen.append({name: array.copy() for name, array in inputs.items()})
        return self._model(inputs)

    def close(self) -> None:
        pass


class Bench:
    """Runs works through one function. `placement` is of the last batch."""

    def __init__(self, model: Model, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.engine = FunctionEngine(model)
        self.signature = Signature(tuple(inputs), tuple(outputs))
        spec = ModelSpec("m", "1", Path(), "function")
        self._session = Session(self.engine, spec, Loaded(self.signature, "function", 64), MAX_BYTES)
        self.placement: Placement | None = None

    @property
    def seen(self) -> dict[str, Array]:
        """What the model was given last."""
        return self.engine.seen[-1]

    def answer(self, works: Sequence[Work], first: int = 0, last: int | None = None) -> Answer:
        """The records `first` to `last` of a batch of all works."""
        from runner_rig import batch

        inputs, outputs = Heap(), Heap()
        # What lies in the memory from an earlier batch must not show.
        inputs.reserve(4096)
        inputs.view[:] = b"\xee" * 4096
        self.placement = place(batch(*works), self.signature.inputs, inputs, MAX_BYTES)
        run = self.placement.run(1, 0, 0, first, len(works) if last is None else last)
        return read_answer(self._session.run(run, inputs.view, outputs), self.signature.outputs, outputs.view)

    def run(self, works: Sequence[Work], first: int = 0, last: int | None = None) -> list[dict[str, Array]]:
        """Each record's outputs."""
        answer = self.answer(works, first, last)
        assert answer.error is None, answer.error
        span = works[first:last]
        records: list[dict[str, Array]] = []
        for part in answer.parts:
            assert part.error is None, part.error
            of_part = span[len(records) : len(records) + part.records]
            records += _outputs(part, [work.rows for work in of_part])
        return records


def _outputs(part: Part, rows: Sequence[int]) -> list[dict[str, Array]]:
    whole: dict[str, Any] = {}
    for block in part.blocks:
        lead = (part.rows,) if block.batched else ()
        whole[block.name] = Tensor(block.datatype, (*lead, *block.shape), bytes(block.data)).to_array()
    batched = {block.name: block.batched for block in part.blocks}
    starts = [sum(rows[:place]) for place in range(len(rows) + 1)]
    return [
        {name: array[starts[place] : starts[place + 1]] if batched[name] else array for name, array in whole.items()}
        for place in range(len(rows))
    ]


def fp32(name: str, *shape: int, **keys: Any) -> TensorSpec:
    return TensorSpec(name, Datatype.FP32, shape, **keys)
