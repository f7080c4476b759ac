"""The model in a peer's process: onnxruntime on one thread, rows in and out as raw bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.peers.spec import Spec

Array = np.ndarray[Any, Any]


class OnnxModel:
    """One session. A row's bytes are those of its inputs one after another."""

    def __init__(self, spec: Spec) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(spec.file, options, providers=["CPUExecutionProvider"])
        self._inputs = [(name, np.dtype(dtype), shape) for name, dtype, shape in spec.inputs]
        self.output_names = [output.name for output in self._session.get_outputs()]

    def run_bytes(self, rows: Sequence[bytes]) -> list[bytes]:
        """The outputs of each row, as bytes."""
        outputs = self.run(dict(self.arrays(rows)))
        return [b"".join(output[place].tobytes() for output in outputs) for place in range(len(rows))]

    def run_flat(self, rows: Array) -> Array:
        """Rows by values, shape [rows, values of all inputs], to outputs of the same kind."""
        inputs, at = {}, 0
        for name, dtype, shape in self._inputs:
            size = math.prod(shape)
            inputs[name] = rows[:, at : at + size].astype(dtype).reshape(-1, *shape)
            at += size
        return np.concatenate([output.reshape(len(rows), -1) for output in self.run(inputs)], axis=1)

    def run(self, inputs: dict[str, Array]) -> list[Array]:
        """All outputs of a batch."""
        outputs: list[Array] = self._session.run(self.output_names, inputs)
        return outputs

    def arrays(self, rows: Sequence[bytes]) -> list[tuple[str, Array]]:
        """Each input of so many rows, with its name."""
        if len(self._inputs) == 1:
            ((name, dtype, shape),) = self._inputs
            return [(name, np.frombuffer(b"".join(rows), dtype).reshape(-1, *shape))]
        arrays, at = [], 0
        for name, dtype, shape in self._inputs:
            size = dtype.itemsize * math.prod(shape)
            joined = b"".join([row[at : at + size] for row in rows])
            arrays.append((name, np.frombuffer(joined, dtype).reshape(-1, *shape)))
            at += size
        return arrays
