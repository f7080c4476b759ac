"""One bad record never fails its batch mates."""

from pathlib import Path

import numpy as np
from model_folders import POISONABLE, python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker
from producer_sdk.errors import Code

ROWS = [np.array([[n, 1]], np.float32) for n in range(32)]


async def test_a_batch_of_32_with_one_poison_gives_31_right_answers_and_one_typed_error(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", POISONABLE, max_batch_size=32, max_wait_ms=300)
    rows = [*ROWS[:17], np.array([[666, 1]], np.float32), *ROWS[18:]]
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        replies = [reply async for reply in client.map("m", ({"x": row} for row in rows), ordered=True)]
    failed = [reply for reply in replies if isinstance(reply, HeadraceError)]
    assert [(error.index, error.code) for error in failed] == [(17, Code.INFERENCE_FAILED)]
    right = [r for r in replies if not isinstance(r, HeadraceError)]
    assert all(np.array_equal(reply.outputs["y"], rows[reply.index or 0] * 2) for reply in right)
    assert max(reply.parameters["batch_rows"] for reply in right) == 32


async def test_a_bad_row_fails_its_own_record_and_the_message_names_the_row(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    code = """
    class Model:
        def predict(self, inputs):
            return [ValueError("no") if row[0] == 666 else {"y": row * 2} for row in inputs["x"]]
    """
    models = python_model(tmp_path, "m", code, max_wait_ms=300)
    bad = np.array([[1, 1], [2, 2], [666, 1], [4, 4]], np.float32)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        replies = [r async for r in client.map("m", [{"x": bad}, {"x": ROWS[3]}], ordered=True)]
    assert isinstance(replies[0], HeadraceError)
    assert "row 2" in replies[0].message
    assert not isinstance(replies[1], HeadraceError)
