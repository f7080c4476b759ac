"""Model folders for tests: python models of a few lines, and a small ONNX model."""

from __future__ import annotations

import textwrap
from pathlib import Path

import yaml

FLOAT_IN = {"name": "x", "datatype": "FP32", "shape": [2]}
FLOAT_OUT = {"name": "y", "datatype": "FP32", "shape": [2]}

DOUBLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""

# Doubles; a row whose first number is 666 makes the whole batch fail, as a real model's raise does. Each call is noted
# in the file that the parameter `log` names, if any does.
POISONABLE = """
class Model:
    def load(self, context):
        self.log = context.parameters.get("log")

    def predict(self, inputs):
        if self.log:
            with open(self.log, "a") as log:
                log.write(" ".join(str(int(row[1])) for row in inputs["x"]) + "\\n")
        if (inputs["x"][:, 0] == 666).any():
            raise ValueError("cannot digest 666")
        return {"y": inputs["x"] * 2}
"""

# Doubles; a row whose first number is 9 ends the process. Each call is noted in the file named by the parameter `log`.
DEADLY = """
import os

class Model:
    def load(self, context):
        self.log = context.parameters["log"]

    def predict(self, inputs):
        with open(self.log, "a") as log:
            log.write(" ".join(str(int(row[1])) for row in inputs["x"]) + "\\n")
        if (inputs["x"][:, 0] == 9).any():
            os._exit(7)
        return {"y": inputs["x"] * 2}
"""

# Doubles after holding the interpreter lock for as many seconds as the first number says.
GIL_HOLDING = """
import ctypes

class Model:
    def predict(self, inputs):
        seconds = float(inputs["x"][:, 0].max())
        if seconds >= 1:
            ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        return {"y": inputs["x"] * 2}
"""

# Sleeps (interpreter free) as many seconds as the first number says, then doubles.
SLEEPY = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(float(inputs["x"][:, 0].max()))
        return {"y": inputs["x"] * 2}
"""

# Answers each row with as many bytes as its first number says.
BULKY = """
import numpy as np

class Model:
    def predict(self, inputs):
        return [{"y": np.zeros(int(row[0]), np.uint8)} for row in inputs["x"]]
"""


def python_model(
    root: Path,
    name: str,
    code: str = DOUBLE,
    *,
    version: str = "1",
    inputs: list[dict[str, object]] | None = None,
    outputs: list[dict[str, object]] | None = None,
    **keys: object,
) -> Path:
    """A `python` model under the model directory; by default FP32 [2] `x` -> FP32 [2] `y`, without waiting."""
    folder = root / name / version
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(textwrap.dedent(code))
    manifest = {"engine": "python", "max_wait_ms": 0, "inputs": inputs or [FLOAT_IN], "outputs": outputs or [FLOAT_OUT]}
    (root / name / "model.yaml").write_text(yaml.safe_dump(manifest | keys))
    return root


def doubling_onnx(root: Path, name: str, *, version: str = "1", width: int = 2, **keys: object) -> Path:
    """An ONNX model that doubles FP32 [rows, width] `x` into `y`."""
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", width])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    folder = root / name / version
    folder.mkdir(parents=True)
    save(model, str(folder / "model.onnx"))
    if keys:
        (root / name / "model.yaml").write_text(yaml.safe_dump(keys))
    return root
