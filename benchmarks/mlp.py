"""The small model: 384 -> 512 -> 10, random weights from a fixed seed."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

INPUTS, HIDDEN, OUTPUTS = 384, 512, 10
OPSET = 17
IR_VERSION = 10  # the newest that every onnxruntime headrace takes can read


def write_mlp(file: Path) -> Path:
    """Write the ONNX file, its batch axis dynamic; gives `file`."""
    random = np.random.default_rng(7)
    layers = {
        "w1": random.standard_normal((INPUTS, HIDDEN), dtype=np.float32) / np.float32(INPUTS**0.5),
        "b1": random.standard_normal(HIDDEN, dtype=np.float32),
        "w2": random.standard_normal((HIDDEN, OUTPUTS), dtype=np.float32) / np.float32(HIDDEN**0.5),
        "b2": random.standard_normal(OUTPUTS, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", OUTPUTS])],
        [numpy_helper.from_array(array, name) for name, array in layers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    save(model, file)
    return file
