"""Small ONNX files for tests: one node each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from onnx.external_data_helper import set_external_data

Dims = Sequence[int | str]


def save_model(folder: Path, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Path:
    """A model.onnx of these nodes in the folder, which is made."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, str(folder / "model.onnx"))
    return folder / "model.onnx"


def value(name: str, dims: Dims, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(dims))


def identity(folder: Path, dims: Dims, kind: int = TensorProto.FLOAT) -> Path:
    """`x` -> `y`, the same."""
    return save_model(
        folder, [helper.make_node("Identity", ["x"], ["y"])], [value("x", dims, kind)], [value("y", dims, kind)]
    )


def adding(folder: Path, x: Dims, table: Dims, y: Dims) -> Path:
    """`x` + `table` -> `y`."""
    node = helper.make_node("Add", ["x", "table"], ["y"])
    return save_model(folder, [node], [value("x", x), value("table", table)], [value("y", y)])


def summing(folder: Path, x: Dims, y: Dims) -> Path:
    """The sum of all of `x` -> `y`, with as many dimensions as `x` where `y` has any."""
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=int(len(y) > 0))
    return save_model(folder, [node], [value("x", x)], [value("y", y)])


def finding(folder: Path) -> Path:
    """Where FP32 [rows, 2] `x` is not zero -> INT64 [found, 2] `y`, whose rows are not those of the batch."""
    nodes = [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Transpose", ["at"], ["y"])]
    return save_model(folder, nodes, [value("x", ["rows", 2])], [value("y", ["found", 2], TensorProto.INT64)])


def sharded_half(folder: Path, hidden: int) -> tuple[Path, Path]:
    """FP16 [rows, 64] `x` -> `y`, column k times k + 1; its weights are two files, each of 128 * `hidden` bytes."""
    step = hidden // 64
    spread, gather = np.zeros((64, hidden), np.float16), np.zeros((hidden, 64), np.float16)
    for column in range(64):
        spread[column, column * step] = 1
        gather[column * step, column] = column + 1
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "spread"], ["h"]), helper.make_node("MatMul", ["h", "gather"], ["y"])],
        "sharded",
        [value("x", ["rows", 64], TensorProto.FLOAT16)],
        [value("y", ["rows", 64], TensorProto.FLOAT16)],
        [_outside(folder, name, array) for name, array in (("spread", spread), ("gather", gather))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "spread.bin", folder / "gather.bin"


def _outside(folder: Path, name: str, array: Any) -> Any:
    """A tensor whose bytes are in the file of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.bin").write_bytes(array.tobytes())
    tensor = numpy_helper.from_array(array, name)
    set_external_data(tensor, f"{name}.bin", 0, array.nbytes)
    tensor.ClearField("raw_data")
    return tensor
