"""Ray Serve: deployments with `@serve.batch`, batching by size and time. POST /infer."""

from __future__ import annotations

import signal

import ray  # type: ignore[import-not-found]
from ray import serve
from starlette.requests import Request  # type: ignore[import-not-found]
from starlette.responses import Response  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import Spec, given

SPEC = given()


@serve.deployment(num_replicas=SPEC.workers, max_ongoing_requests=512, ray_actor_options={"num_cpus": 0.5})
class Infer:
    """Runs batches of raw bytes."""

    def __init__(self, spec: Spec) -> None:
        self._model = OnnxModel(spec)

    @serve.batch(max_batch_size=SPEC.batch, batch_wait_timeout_s=SPEC.wait_ms / 1000)  # type: ignore[untyped-decorator]
    async def batched(self, rows: list[bytes]) -> list[bytes]:
        return self._model.run_bytes(rows)

    async def __call__(self, request: Request) -> Response:
        return Response(await self.batched(await request.body()), media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    serve.start(http_options={"host": "127.0.0.1", "port": SPEC.port})
    serve.run(Infer.bind(SPEC), route_prefix="/infer")  # type: ignore[attr-defined]
    signal.pause()
