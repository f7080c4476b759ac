"""20 MB over HTTP and 64 MB by the SDK pass gateway, worker and runner, on a broker whose records hold 1 MB."""

import base64
import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from model_folders import python_model
from s3 import S3Server
from worker_rig import running_worker

from gateway.parts import Parts
from gateway.settings import GatewaySettings
from producer_sdk import Client
from producer_sdk.broker import Broker
from producer_sdk.payloads import Payloads, S3Settings
from producer_sdk.testing import MemoryBroker

ECHO = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"]}
"""


async def test_20_mb_over_http_come_back_right(broker: Broker, prefix: str, tmp_path: Path, s3: S3Server) -> None:
    bucket = s3.new_bucket()
    tensor = {"datatype": "BYTES", "shape": [1]}
    models = python_model(tmp_path, "m", ECHO, inputs=[{"name": "x"} | tensor], outputs=[{"name": "y"} | tensor])
    store = Payloads(S3Settings(s3.url, claim_bucket=bucket))
    parts = Parts(GatewaySettings(prefix=prefix, s3_endpoint_url=s3.url, s3_claim_bucket=bucket), store)
    text = base64.b64encode(np.random.default_rng(1).bytes(20_000_000)).decode()
    item = tensor | {"name": "x", "shape": [1, 1], "parameters": {"content_type": "base64"}, "data": [text]}
    async with (
        running_worker(broker, models, prefix, s3_endpoint_url=s3.url, s3_claim_bucket=bucket),
        parts.open(broker) as app,
    ):
        parts.health.starting = None
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60) as http:
            answer = await http.post("/v2/models/m/infer", content=json.dumps({"inputs": [item]}).encode())
    await store.close()
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == [text]
    assert len(s3.keys(bucket)) == 2


@pytest.mark.timeout(180)
async def test_64_mb_by_the_sdk_come_back_right(prefix: str, tmp_path: Path, s3: S3Server) -> None:
    broker, bucket = MemoryBroker(), s3.new_bucket()
    tensor = {"datatype": "FP16", "shape": [-1]}
    models = python_model(tmp_path, "m", ECHO, inputs=[{"name": "x"} | tensor], outputs=[{"name": "y"} | tensor])
    x = np.arange(32_000_000, dtype=np.uint32).astype(np.uint16).view(np.float16).reshape(1, -1)
    settings = S3Settings(s3.url, claim_bucket=bucket)
    async with (
        running_worker(broker, models, prefix, s3_endpoint_url=s3.url, s3_claim_bucket=bucket),
        Client(broker, prefix=prefix, s3=settings) as client,
    ):
        reply = await client.infer("m", {"x": x}, deadline_s=50)
    np.testing.assert_array_equal(reply.outputs["y"].view(np.uint16), x.view(np.uint16))
