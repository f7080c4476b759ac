"""FP16, BF16 and large BYTES keep every bit through the worker, in both forms and on both engines, up to the limit."""

from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from model_folders import python_model
from onnx import TensorProto
from onnx_files import identity
from worker_rig import running_worker

from producer_sdk import Client
from producer_sdk.broker import MAX_RECORD_BYTES as LIMIT
from producer_sdk.broker import Broker
from producer_sdk.errors import PayloadTooLarge
from producer_sdk.tensors import Array

ECHO = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"]}
"""
FILLING = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.array([[b"y" * int(n)] for n, in inputs["n"]], object)}
"""
KINDS = {"FP16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16, "BYTES": TensorProto.STRING}
WORDS = np.array(
    [[0x0001, 0x8000], [0x3C00, 0x7C00], [0xFC00, 0x7E00]], np.uint16
)  # as FP16 and as BF16: no bit is lost
TEXTS = np.array([["", "\u00e9" * 100_000], ["x", "\U0001f600"], ["0", "a\x00b"]], object)


def echoing(root: Path, engine: str) -> Path:
    """A model for each datatype that gives back what it gets; of the engine."""
    for datatype, kind in KINDS.items():
        tensor = {"datatype": datatype, "shape": [2]}
        if engine == "python":
            python_model(
                root, datatype, ECHO, inputs=[{"name": "x", **tensor}], outputs=[{"name": "y", **tensor}],
                isolation="inline",
            )  # fmt: skip
        else:
            identity(root / datatype / "1", ["rows", 2], kind)
            (root / datatype / "model.yaml").write_text("isolation: inline\nmax_wait_ms: 0\n")
    return root


def bits(array: Array) -> Any:
    return [[bytes(each) for each in row] for row in array] if array.dtype == object else array.view(np.uint16).tolist()


@pytest.mark.parametrize("engine", ["python", "onnxruntime"])
async def test_values_of_every_unusual_datatype_come_back_whole_in_either_form(
    broker: Broker, prefix: str, tmp_path: Path, engine: str
) -> None:
    asked: dict[str, Array] = {
        "FP16": WORDS.view(np.float16),
        "BF16": WORDS.view(ml_dtypes.bfloat16),
        "BYTES": np.vectorize(str.encode, otypes=[object])(TEXTS),
    }
    encodings: tuple[Literal["msgpack", "json"], ...] = ("msgpack", "json")
    async with running_worker(broker, echoing(tmp_path, engine), prefix):
        for encoding in encodings:
            async with Client(broker, prefix=prefix, encoding=encoding) as client:
                for datatype, array in asked.items():
                    reply = await client.infer(datatype, {"x": array})
                    assert bits(reply.outputs["y"]) == bits(array), (encoding, datatype)
                    assert reply.outputs["y"].dtype == array.dtype


async def test_requests_and_replies_may_fill_the_largest_record_and_take_not_a_byte_more(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    texts = {"datatype": "BYTES", "shape": [1]}
    models = python_model(
        tmp_path, "m", FILLING, inputs=[{"name": "x", **texts}, {"name": "n", "datatype": "INT32", "shape": [1]}],
        outputs=[{"name": "y", **texts}], isolation="inline",
    )  # fmt: skip

    async def answered_bytes(text_bytes: int, reply_bytes: int) -> int | None:
        """How many come back; None where it is told that there are too many."""
        inputs = {"x": np.array([[b"x" * text_bytes]], object), "n": np.array([[reply_bytes]], np.int32)}
        try:
            return len((await client.infer("m", inputs)).outputs["y"][0, 0])
        except PayloadTooLarge:
            return None

    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        for sizes in (lambda size: (size, 7), lambda size: (7, size)):
            fits, above = LIMIT - 1024, LIMIT + 1
            while above - fits > 1:
                size = (fits + above) // 2
                found = await answered_bytes(*sizes(size))
                assert found in (None, sizes(size)[1])
                fits, above = (fits, size) if found is None else (size, above)
            assert LIMIT - 700 < fits < LIMIT - 10
