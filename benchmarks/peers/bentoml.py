"""BentoML: services with adaptive batching; NumPy arrays come in and go out as JSON. POST /infer."""

import os
import sys
from pathlib import Path

import bentoml  # type: ignore[import-not-found]
import numpy as np

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given

SPEC = given()
TIMEOUT_S = 30


@bentoml.service(
    workers=SPEC.workers,
    traffic={"timeout": TIMEOUT_S, "max_concurrency": 512},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Infer:
    """Runs batches of rows by values."""

    def __init__(self) -> None:
        self._model = OnnxModel(SPEC)

    # Past max_latency_ms the batcher answers 503: with 64 requests out on a slow model, 1 s would refuse most of them.
    @bentoml.api(  # type: ignore[untyped-decorator]
        batchable=True, max_batch_size=SPEC.batch, max_latency_ms=TIMEOUT_S * 1000
    )
    def infer(self, rows: np.ndarray) -> np.ndarray:
        return self._model.run_flat(rows)


if __name__ == "__main__":
    program = str(Path(sys.executable).with_name("bentoml"))
    words = ("serve", "benchmarks.peers.bentoml:Infer", "--host", "127.0.0.1", "--port", str(SPEC.port))
    os.environ["BENTOML_DO_NOT_TRACK"] = "1"
    os.execv(program, [program, *words])
