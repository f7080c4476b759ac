"""Triton Inference Server with its Python backend, from NVIDIA's wheel (pytriton). POST /v2/models/model/infer."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytriton.decorators import batch  # type: ignore[import-not-found]
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor  # type: ignore[import-not-found]
from pytriton.triton import Triton, TritonConfig  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given

if __name__ == "__main__":
    spec = given()
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
