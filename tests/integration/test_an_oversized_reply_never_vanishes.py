"""A reply larger than a record may be becomes an immediate PAYLOAD_TOO_LARGE, never silence."""

import time
from pathlib import Path

import numpy as np
import pytest
from model_folders import BULKY, python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker
from producer_sdk.errors import Code, PayloadTooLarge

BYTES_OUT = [{"name": "y", "datatype": "UINT8", "shape": [-1]}]


async def test_a_reply_of_20_mb_is_answered_at_once_with_payload_too_large(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", BULKY, outputs=BYTES_OUT)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        await client.infer("m", {"x": np.array([[10, 0]], np.float32)})
        began = time.monotonic()
        with pytest.raises(PayloadTooLarge, match="20000") as caught:
            await client.infer("m", {"x": np.array([[20_000_000, 0]], np.float32)}, deadline_s=15)
        assert time.monotonic() - began < 5
        assert caught.value.id is not None


async def test_batch_mates_of_an_oversized_reply_are_answered(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", BULKY, outputs=BYTES_OUT, max_wait_ms=200)
    sizes = [10, 2_000_000, 20]
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        inputs = ({"x": np.array([[size, 0]], np.float32)} for size in sizes)
        replies = [reply async for reply in client.map("m", inputs, ordered=True)]
    codes = [reply.code if isinstance(reply, HeadraceError) else len(reply.outputs["y"][0]) for reply in replies]
    assert codes == [10, Code.PAYLOAD_TOO_LARGE, 20]
