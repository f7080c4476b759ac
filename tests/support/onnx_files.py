"""Small ONNX files for tests: one node each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper, save

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
