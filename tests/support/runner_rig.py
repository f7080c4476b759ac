"""Runners for tests: a python model from a few lines of code, started in its own process, and batches for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from producer_sdk.broker import Record
from producer_sdk.tensors import Array, Datatype, Tensor
from producer_sdk.topics import Lane
from producer_sdk.wire import Request, Scalar
from workers.runners.engine import ModelSpec, TensorSpec
from workers.runners.handle import RunnerProcess
from workers.runners.inline import InlineRunner
from workers.work import Answer, Batch, Source, Work

FLOATS = (TensorSpec("x", Datatype.FP32, (2,)),)
DOUBLED = (TensorSpec("y", Datatype.FP32, (2,)),)


def model_spec(root: Path, code: str = "", **fields: Any) -> ModelSpec:
    """A model under `root`: a python model with this code, or, without code, whatever lies in the folder `1`."""
    folder = root / "1"
    folder.mkdir(exist_ok=True)
    if code:
        (folder / "model.py").write_text(code)
        fields = {"engine": "python", "inputs": FLOATS, "outputs": DOUBLED} | fields
    engine = fields.pop("engine", "onnxruntime")
    return ModelSpec("m", "1", folder, engine, **fields)


def work(inputs: Mapping[str, Any], parameters: Mapping[str, Scalar] | None = None, rows: int | None = None) -> Work:
    """One record; its rows are those of the first input, unless given."""
    tensors = {name: Tensor.from_array(value) for name, value in inputs.items()}
    request = Request("id", tensors, parameters=dict(parameters or {}))
    rows = next(iter(tensors.values())).shape[0] if rows is None else rows
    nbytes = sum(len(tensor.data) for tensor in tensors.values())
    return Work(request, cast(Source, None), cast(Record, None), Lane.ASYNC, rows, nbytes, (), 0.0, None)


def batch(*works: Work) -> Batch:
    return Batch.of(works)


def floats(*rows: Sequence[float]) -> Work:
    """One record of FP32 [rows, 2] `x`."""
    return work({"x": np.array(rows, np.float32)})


@asynccontextmanager
async def started(spec: ModelSpec, **options: Any) -> AsyncIterator[RunnerProcess]:
    """A runner process whose model is loaded; stopped at the end."""
    runner = RunnerProcess(spec, **options)
    try:
        await runner.start()
        yield runner
    finally:
        await runner.stop()


@asynccontextmanager
async def started_inline(spec: ModelSpec, **options: Any) -> AsyncIterator[InlineRunner]:
    """The same in a thread."""
    runner = InlineRunner(spec, **options)
    try:
        await runner.start()
        yield runner
    finally:
        await runner.stop()


async def run_all(runner: RunnerProcess | InlineRunner, records: Batch, slot: int = 0) -> Answer:
    """Place the batch and run all of it."""
    runner.place(slot, records)
    return await runner.run(slot, 0, len(records.works))


def output(answer: Answer, name: str = "y") -> Array:
    """One output of an answer that is a single part, copied out of the runner's memory."""
    (part,) = answer.parts
    block = next(block for block in part.blocks if block.name == name)
    rows = (part.rows,) if block.batched else ()
    return Tensor(block.datatype, (*rows, *block.shape), bytes(block.data)).to_array()
