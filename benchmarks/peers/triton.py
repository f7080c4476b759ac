"""Triton Inference Server with its Python backend, from NVIDIA's wheel (pytriton). POST /v2/models/model/infer."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
from pytriton.decorators import batch  # type: ignore[import-not-found]
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor  # type: ignore[import-not-found]
from pytriton.triton import Triton, TritonConfig  # type: ignore[import-not-found]
from tritonclient.utils import InferenceServerException  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import Spec, given
from benchmarks.peers.triton_environment import again, variables


def serve(spec: Spec) -> None:
    """Until it is stopped. Raises InferenceServerException when the model was not loaded."""
    model = OnnxModel(spec)
    rows = {name: np.zeros((1, *shape), dtype) for name, dtype, shape in spec.inputs}
    outputs = dict(zip(model.output_names, model.run(rows), strict=True))

    @batch  # type: ignore[untyped-decorator]
    def infer(**inputs: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        return dict(zip(model.output_names, model.run(inputs), strict=True))

    config = TritonConfig(http_address="127.0.0.1", http_port=spec.port, allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            "model",
            [infer] * spec.workers,
            [Tensor(name=name, dtype=np.dtype(dtype).type, shape=shape) for name, dtype, shape in spec.inputs],
            [Tensor(name=name, dtype=each.dtype.type, shape=each.shape[1:]) for name, each in outputs.items()],
            config=ModelConfig(
                max_batch_size=spec.batch,
                batcher=DynamicBatcher(max_queue_delay_microseconds=int(spec.wait_ms * 1000)),
            ),
        )
        triton.serve()


if __name__ == "__main__":
    spec = given()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # else it leaves 20 MB of files and 8 MB of shared memory
    os.environ |= variables(os.environ, spec.row_bytes)
    again(lambda: serve(spec), InferenceServerException)
