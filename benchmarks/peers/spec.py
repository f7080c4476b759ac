"""What a peer's process is told, in one environment variable; headrace's packages are not there to read settings."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass

import numpy as np

VARIABLE = "HEADRACE_PEER"


@dataclass(frozen=True)
class Spec:
    """One served model.

    Attributes:
        file: the ONNX file.
        inputs: name, NumPy type and shape of a row of each.
        port: to listen on; of a queue peer 0.
        workers: processes that run the model, each with one thread.
        batch: most rows of a batch.
        wait_ms: how long a batch may wait for more.
        servers: address of the broker, of a queue peer.
        requests, replies, group: its topics or queues.
    """

    file: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    port: int = 0
    workers: int = 1
    batch: int = 1
    wait_ms: float = 1.0
    servers: str = ""
    requests: str = ""
    replies: str = ""
    group: str = ""

    @property
    def row_bytes(self) -> int:
        """Of the inputs of one row."""
        return sum(np.dtype(dtype).itemsize * math.prod(shape) for _, dtype, shape in self.inputs)

    def variable(self) -> dict[str, str]:
        """The environment of the process."""
        return {VARIABLE: json.dumps(asdict(self))}


def given() -> Spec:
    """What this process was told."""
    fields = json.loads(os.environ[VARIABLE])
    inputs = tuple((name, dtype, tuple(shape)) for name, dtype, shape in fields.pop("inputs"))
    return Spec(inputs=inputs, **fields)
