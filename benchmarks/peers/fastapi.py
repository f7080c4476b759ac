"""FastAPI on uvicorn with onnxruntime, as most services begin: no batching, one model a process. POST /infer."""

from __future__ import annotations

import uvicorn
from fastapi import FastAPI, Request, Response  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given

model = OnnxModel(given())
app = FastAPI()


async def infer(request: Request) -> Response:
    """One row; the model runs in the loop's thread, which is quicker than handing over so little."""
    (answer,) = model.run_bytes([await request.body()])
    return Response(answer, media_type="application/octet-stream")


app.add_api_route("/infer", infer, methods=["POST"], response_model=None)

if __name__ == "__main__":
    spec = given()
    uvicorn.run(
        "benchmarks.peers.fastapi:app",
        host="127.0.0.1",
        port=spec.port,
        workers=spec.workers,
        log_level="warning",
        access_log=False,
    )
