"""`python -m benchmarks.mixed_lengths [--rows N] [--runs N]`: texts of mixed lengths through MiniLM, batched five ways.

    one by one    each request by itself, nothing padded
    to the max    in the order of arrival, padded to the longest that the model takes
    to the batch  in the order of arrival, padded to the longest of the batch
    few buckets   those that are padded alike together, as of `pad_to: [16, 32, 64, 128]`
    fine buckets  the same with `pad_to: 8`

Rows are placed and run as in a runner, on one thread, without Kafka. CPU time counts, for a busy machine stretches the
other. The file comes from `python -m benchmarks.export_minilm`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.export_minilm import any_length_file
from producer_sdk.broker import Record
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.runners.answers import read_answer
from workers.runners.engine import Loaded, ModelSpec, TensorSpec
from workers.runners.load import DEFAULT_MAX_BATCH_BYTES, make_engine
from workers.runners.placing import place
from workers.runners.session import Session
from workers.runners.shm import Heap
from workers.shapes import Shapes
from workers.work import Batch, Source, Work

MOST_TOKENS, VOCABULARY = 128, 30_000
BATCH_ROWS = 16
IDS = TensorSpec("input_ids", Datatype.INT64, (-1,), pad_to=(1,), mask="attention_mask")


class Way(Struct, frozen=True):
    """How requests are put together, and what they are padded to."""

    name: str
    batches: Callable[[Sequence[Work]], Iterator[list[Work]]]
    pad_to: tuple[int, ...]


class Measured(Struct, frozen=True):
    """What one way took: rows a CPU second, the share of elements that is padding, and the embeddings."""

    rows_per_s: float
    padding: float
    embeddings: np.ndarray


def one_by_one(works: Sequence[Work]) -> Iterator[list[Work]]:
    yield from ([work] for work in works)


def in_order(works: Sequence[Work]) -> Iterator[list[Work]]:
    yield from (list(works[at : at + BATCH_ROWS]) for at in range(0, len(works), BATCH_ROWS))


def in_buckets(works: Sequence[Work]) -> Iterator[list[Work]]:
    """Each bucket's requests in the order of arrival."""
    buckets: dict[object, list[Work]] = {}
    for work in works:
        waiting = buckets.setdefault(work.bucket, [])
        waiting.append(work)
        if len(waiting) == BATCH_ROWS:
            yield buckets.pop(work.bucket)
    yield from buckets.values()


WAYS = (
    Way("one by one", one_by_one, (1,)),
    Way("to the max", in_order, (MOST_TOKENS,)),
    Way("to the batch", in_order, (1,)),
    Way("few buckets", in_buckets, (16, 32, 64, 128)),
    Way("fine buckets", in_buckets, (8,)),
)


def lengths(rows: int) -> list[int]:
    """Tokens of sentences: half have up to 20, few near the most that are taken."""
    rng = np.random.default_rng(7)
    sizes = np.exp(rng.normal(np.log(20), 0.8, rows)).round().astype(int)
    return [int(size) for size in sizes.clip(3, MOST_TOKENS)]


def trace(rows: int, pad_to: tuple[int, ...]) -> list[Work]:
    """Requests of one row, in the order of arrival; their buckets are those of this padding."""
    rng = np.random.default_rng(8)
    shapes = Shapes((replace(IDS, pad_to=pad_to), TensorSpec("attention_mask", Datatype.INT64, (-1,))), 1)
    works = []
    for size in lengths(rows):
        inputs = {"input_ids": Tensor.from_array(rng.integers(1000, VOCABULARY, (1, size)))}
        fit = shapes.fit(inputs)
        nowhere = cast(Source, None), cast(Record, None)
        works.append(Work(Request("id", inputs), *nowhere, Lane.ASYNC, 1, fit.nbytes, fit.bucket, 0.0, None))
    return works


class Runner:
    """MiniLM on one thread of this process."""

    def __init__(self, folder: Path) -> None:
        (folder / "model.onnx").symlink_to(any_length_file())
        self._spec = ModelSpec("minilm", "1", folder, "onnxruntime", inputs=(IDS,), max_batch_size=BATCH_ROWS)
        self._engine = make_engine("onnxruntime")
        self._loaded = self._engine.load(self._spec)
        self._inputs, self._outputs = Heap(), Heap()

    def measure(self, way: Way, works: Sequence[Work]) -> Measured:
        """Run all of them in this way."""
        signature = self._loaded.signature
        inputs = tuple(replace(spec, pad_to=way.pad_to) if spec.pad_to else spec for spec in signature.inputs)
        loaded: Loaded = replace(self._loaded, signature=replace(signature, inputs=inputs))
        session = Session(self._engine, self._spec, loaded, DEFAULT_MAX_BATCH_BYTES)
        of_work: dict[int, np.ndarray] = {}
        elements = padding = 0
        began = time.process_time()
        for batch in way.batches(works):
            placement = place(Batch.of(batch), inputs, self._inputs, DEFAULT_MAX_BATCH_BYTES)
            elements, padding = elements + placement.elements, padding + placement.padding
            done = session.run(placement.run(1, 0, 0, 0, len(batch)), self._inputs.view, self._outputs)
            (part,) = read_answer(done, signature.outputs, self._outputs.view).parts
            rows = np.frombuffer(bytes(part.blocks[0].data), np.float32).reshape(len(batch), -1)
            of_work.update((id(work), row) for work, row in zip(batch, rows, strict=True))
        took_s = time.process_time() - began
        embeddings = np.stack([of_work[id(work)] for work in works])
        return Measured(len(works) / took_s, padding / elements, embeddings)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed_lengths")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    traces = [trace(asked.rows, way.pad_to) for way in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        runs = [
            [runner.measure(way, works) for way, works in zip(WAYS, traces, strict=True)] for _ in range(asked.runs)
        ]
    truth = runs[0][0].embeddings
    print(f"{asked.rows} rows, tokens {np.percentile(lengths(asked.rows), [50, 90, 100]).tolist()} at p50, p90, most; "
          f"up to {BATCH_ROWS} rows a batch, one thread, best of {asked.runs}")  # fmt: skip
    print("| way | rows a CPU second | of one by one | padding | greatest drift |")
    print("| --- | --- | --- | --- | --- |")
    best = [max((run[place] for run in runs), key=lambda each: each.rows_per_s) for place in range(len(WAYS))]
    for way, measured in zip(WAYS, best, strict=True):
        drift = float(np.abs(measured.embeddings - truth).max())
        ratio = measured.rows_per_s / best[0].rows_per_s
        print(f"| {way.name} | {measured.rows_per_s:.0f} | {ratio:.2f} | {measured.padding:.0%} | {drift:.1e} |")


if __name__ == "__main__":
    main()
