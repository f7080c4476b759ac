"""ONNX files whose dimensions vary: any batch axis, padding with a mask, rows laid end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_runs import Bench, fp32
from onnx import TensorProto, helper
from onnx_files import identity, save_model, value
from runner_rig import model_spec, work

from producer_sdk.tensors import Datatype
from workers.runners.engine import Loaded, LoadFailed, TensorSpec
from workers.runners.onnxrt import OnnxRuntime
from workers.runners.policies import BatchPolicy
from workers.runners.warm_up import warm_ups

MASKED = TensorSpec("x", Datatype.FP32, (-1,), pad_to=(4, 8), pad_value=5.0, mask="mask")


def loaded_bench(folder: Path, **fields: Any) -> tuple[Bench, Loaded]:
    engine = OnnxRuntime()
    loaded = engine.load(model_spec(folder, **fields))

    def run(inputs: Any) -> Any:
        assert bench.placement is not None
        return engine.run(inputs, [{}] * sum(bench.placement.records))

    bench = Bench(run, loaded.signature.inputs, loaded.signature.outputs)
    return bench, loaded


def masked(folder: Path) -> None:
    """FP32 [rows, n] `x` * `mask` -> `y`."""
    dims = ["rows", "n"]
    node = helper.make_node("Mul", ["x", "mask"], ["y"])
    save_model(folder, [node], [value("x", dims), value("mask", dims)], [value("y", dims)])


@pytest.mark.parametrize(("dims", "most"), [([3, "rows"], 32), ([3, 4], 4)])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.STRING])
def test_rows_may_lie_along_a_later_axis(tmp_path: Path, dims: Any, most: int, kind: int) -> None:
    identity(tmp_path / "1", dims, kind)
    datatype = Datatype.FP32 if kind == TensorProto.FLOAT else Datatype.BYTES
    specs = [TensorSpec(name, datatype, (3,), batch_axis=1) for name in "xy"]
    bench, loaded = loaded_bench(tmp_path, inputs=(specs[0],), outputs=(specs[1],))
    assert loaded.max_batch_size == most
    asked = np.arange(6, dtype=np.float32).reshape(2, 3)
    if kind == TensorProto.STRING:
        asked = np.array([b"a", b"b", b"c", b"d", b"e", b"f"], object).reshape(2, 3)
    got = bench.run([work({"x": row[None]}) for row in asked])
    assert [each["y"][0].tolist() for each in got] == asked.tolist()


def test_a_text_that_is_no_utf_8_fails_its_row_alone_along_any_axis(tmp_path: Path) -> None:
    identity(tmp_path / "1", [2, "rows"], TensorProto.STRING)
    specs = [TensorSpec(name, Datatype.BYTES, (2,), batch_axis=1) for name in "xy"]
    bench, _ = loaded_bench(tmp_path, inputs=(specs[0],), outputs=(specs[1],))
    rows = np.array([[b"a", b"b"], [b"d", b"e"], [b"c", b"\xff"]], object)
    parts = bench.answer([work({"x": row[None]}) for row in rows]).parts
    assert [part.error is not None for part in parts] == [False, True]
    assert (parts[0].records, bytes(parts[0].blocks[0].data)[-5:]) == (2, b"\1\0\0\0e")


def test_dimensions_along_other_axes_that_contradict_the_file_are_refused(tmp_path: Path) -> None:
    identity(tmp_path / "1", [3, "rows"])
    with pytest.raises(LoadFailed, match=r"with shape \[4\], but it is \[3\] beside the batch axis"):
        loaded_bench(tmp_path, inputs=(fp32("x", 4, batch_axis=1),))


def test_a_mask_of_the_file_is_made_and_outputs_are_cut(tmp_path: Path) -> None:
    masked(tmp_path / "1")
    bench, loaded = loaded_bench(tmp_path, inputs=(MASKED,), outputs=(fp32("y", -1, cut_like="x"),))
    assert loaded.warnings == ()
    got = bench.run([work({"x": np.full((1, size), 2, np.float32)}) for size in (3, 6)])
    assert [each["y"].tolist() for each in got] == [[[2.0] * 3], [[2.0] * 6]]
    assert bench.seen["mask"].sum(1).tolist() == [3, 6]
    uncut, _ = loaded_bench(tmp_path, inputs=(MASKED,))
    assert uncut.run([work({"x": np.ones((1, 3), np.float32)})])[0]["y"].tolist() == [[1, 1, 1, 0]]


def test_ragged_rows_and_their_offsets_are_those_of_the_file(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["at"], ["z"])]
    ends = TensorProto.INT32
    save_model(
        tmp_path / "1",
        nodes,
        [value("x", ["total", 2]), value("at", ["more"], ends)],
        [value("y", ["total", 2]), value("z", ["more"], ends)],
    )
    x = fp32("x", -1, 2, ragged=True, offsets="at")
    bench, loaded = loaded_bench(tmp_path, inputs=(x,), outputs=(fp32("y", -1, 2, cut_like="x"),))
    assert loaded.signature.inputs[1] == TensorSpec("at", Datatype.INT32, (-1,), batched=False)
    assert loaded.warnings == ()
    got = bench.run([work({"x": np.full((1, size, 2), size, np.float32)}) for size in (1, 3)])
    assert [each["y"].shape for each in got] == [(1, 1, 2), (1, 3, 2)]
    assert bench.seen["at"].tolist() == [0, 1, 4]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"inputs": (fp32("x", -1, pad_to=(4,), mask="no"),)}, "'x' in model.yaml: mask: there is no input 'no'"),
        ({"batching": BatchPolicy(cost="x[2]")}, r"the cost in model.yaml cannot be worked out: x\[2\] does not exist"),
        ({"batching": BatchPolicy(cost="y[1]")}, r"'y' is none of the inputs \['mask', 'x'\]"),
    ],
)
def test_what_only_the_file_can_contradict_fails_to_load(tmp_path: Path, fields: Any, words: str) -> None:
    masked(tmp_path / "1")
    with pytest.raises(LoadFailed, match=words):
        loaded_bench(tmp_path, **fields)


def test_a_ragged_input_needs_a_free_batch_dimension(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["w"], ["y"])
    save_model(tmp_path / "1", [node], [value("x", ["total"]), value("w", [4])], [value("y", [4])])
    with pytest.raises(LoadFailed, match="fixes the batch dimension at 4, but an input is ragged"):
        loaded_bench(tmp_path, inputs=(fp32("x", -1, ragged=True),))


def test_each_padded_size_is_warmed_up_with_a_row_and_the_smallest_with_a_full_batch() -> None:
    tokens = TensorSpec("x", Datatype.INT64, (-1,), batch_axis=1, pad_to=(4, 8), mask="mask")
    ragged = TensorSpec("r", Datatype.BYTES, (-1, 2), ragged=True, offsets="at")
    offsets = TensorSpec("at", Datatype.INT32, (-1,), batched=False)
    inputs = (tokens, TensorSpec("mask", Datatype.INT64, (-1,)), ragged, offsets, fp32("free", 3, -1))
    warm = list(warm_ups(inputs, 5))
    assert [{name: array.shape for name, array in each.items()} for each in warm] == [
        {"x": (4, 1), "mask": (1, 4), "r": (1, 2), "at": (2,), "free": (1, 3, 1)},
        {"x": (4, 5), "mask": (5, 4), "r": (5, 2), "at": (6,), "free": (5, 3, 1)},
        {"x": (8, 1), "mask": (1, 8), "r": (1, 2), "at": (2,), "free": (1, 3, 1)},
    ]
    assert (warm[1]["x"].sum(), warm[1]["mask"].sum(), warm[1]["at"].tolist()) == (0, 20, [0, 1, 2, 3, 4, 5])
