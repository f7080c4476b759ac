"""LitServe: FastAPI in front of worker processes, dynamic batching by size and time. POST /predict."""

from typing import Annotated

import litserve  # type: ignore[import-not-found]
from fastapi import Body, Response  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given


class Infer(litserve.LitAPI):  # type: ignore[misc]
    """Runs batches of raw bytes."""

    def setup(self, device: str) -> None:
        self._model = OnnxModel(given())

    # Without this annotation LitServe reads JSON; it does not resolve one that is a string.
    def decode_request(self, request: Annotated[bytes, Body(media_type="application/octet-stream")]) -> bytes:
        return request

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, rows: list[bytes] | bytes) -> list[bytes]:
        return self._model.run_bytes(rows if isinstance(rows, list) else [rows])

    def unbatch(self, output: list[bytes]) -> list[bytes]:
        return output

    def encode_response(self, output: bytes) -> Response:
        return Response(output, media_type="application/octet-stream")


if __name__ == "__main__":
    spec = given()
    api = Infer(max_batch_size=spec.batch, batch_timeout=spec.wait_ms / 1000)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=spec.workers, timeout=30)
    server.run(host="127.0.0.1", port=spec.port, generate_client_file=False, log_level="warning", access_log=False)
