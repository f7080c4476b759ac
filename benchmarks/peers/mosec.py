"""mosec: a Rust server in front of Python workers, dynamic batching by size and time. POST /inference."""

from __future__ import annotations

import os

from mosec import Server, Worker  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given


class Infer(Worker):  # type: ignore[misc]
    """Runs batches of raw bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._model = OnnxModel(given())

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return self._model.run_bytes(data)


if __name__ == "__main__":
    spec = given()
    os.environ |= {"MOSEC_PORT": str(spec.port), "MOSEC_ADDRESS": "127.0.0.1", "MOSEC_LOG_LEVEL": "warning"}
    server = Server()
    server.append_worker(Infer, num=spec.workers, max_batch_size=spec.batch, max_wait_time=round(spec.wait_ms))
    server.run()
