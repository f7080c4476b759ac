"""Engine onnxruntime: the signature comes from the file, contradictions are refused, batches fit the file."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx_files import adding, finding, identity, summing
from runner_rig import model_spec

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Datatype
from workers.runners.engine import Loaded, LoadFailed, LoadFault, TensorSpec
from workers.runners.onnxrt import OnnxRuntime

NO_PARAMETERS: list[dict[str, Any]] = [{}]


def load(folder: Path, **fields: Any) -> tuple[OnnxRuntime, Loaded]:
    engine = OnnxRuntime()
    return engine, engine.load(model_spec(folder, **fields))


def test_the_signature_is_read_from_the_file(tmp_path: Path) -> None:
    identity(tmp_path / "1", ["rows", 3, "width"])
    _, loaded = load(tmp_path)
    assert loaded.signature.inputs == (TensorSpec("x", Datatype.FP32, (3, -1)),)
    assert (loaded.platform, loaded.max_batch_size, loaded.warnings) == ("onnx_onnxv1", 32, ())


def test_declared_shapes_narrow_the_files_own(tmp_path: Path) -> None:
    identity(tmp_path / "1", ["rows", 3, "width"])
    _, loaded = load(tmp_path, inputs=(TensorSpec("x", Datatype.FP32, (3, 7)),))
    assert loaded.signature.inputs[0].shape == (3, 7)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (TensorSpec("z", Datatype.FP32, (3, 7)), r"'z', but the inputs of model.onnx are \['x'\]"),
        (TensorSpec("x", Datatype.INT8, (3, 7)), "as INT8, but it is FP32 in model.onnx"),
        (TensorSpec("x", Datatype.FP32, (4, 7)), r"\[4, 7\], but it is \[3, -1\] behind the batch axis"),
        (TensorSpec("x", Datatype.FP32, (7,)), r"\[7\], but it is \[3, -1\] behind the batch axis"),
    ],
)
def test_a_declaration_that_contradicts_the_file_is_refused_naming_both(
    tmp_path: Path, declared: TensorSpec, words: str
) -> None:
    identity(tmp_path / "1", ["rows", 3, "width"])
    with pytest.raises(LoadFailed, match=words) as failed:
        load(tmp_path, inputs=(declared,))
    assert failed.value.kind is LoadFault.FORMAT


def test_a_fixed_batch_of_one_lowers_the_batch_size_with_a_warning(tmp_path: Path) -> None:
    identity(tmp_path / "1", [1, 2])
    _, loaded = load(tmp_path)
    assert loaded.max_batch_size == 1
    assert loaded.warnings == ("model.onnx fixes the batch dimension at 1: max_batch_size 32 is lowered to 1",)


def test_rows_are_padded_to_a_fixed_batch_and_cut_again(tmp_path: Path) -> None:
    identity(tmp_path / "1", [4, 2])
    engine, loaded = load(tmp_path)
    outputs = engine.run({"x": np.ones((3, 2), np.float32)}, NO_PARAMETERS * 3)
    assert loaded.max_batch_size == 4
    assert isinstance(outputs, dict)
    assert outputs["y"].shape == (3, 2)


def test_an_input_without_a_batch_axis_must_be_declared(tmp_path: Path) -> None:
    adding(tmp_path / "1", ["rows", 2], [1, 2], ["rows", 2])
    with pytest.raises(LoadFailed, match="declare `batched: false`"):
        load(tmp_path)
    engine, loaded = load(tmp_path, inputs=(TensorSpec("table", Datatype.FP32, (1, 2), batched=False),))
    outputs = engine.run({"x": np.ones((3, 2), np.float32), "table": np.ones((1, 2), np.float32)}, NO_PARAMETERS * 3)
    assert [spec.batched for spec in loaded.signature.inputs] == [True, False]
    assert isinstance(outputs, dict)
    assert outputs["y"].tolist() == [[2, 2]] * 3


def test_an_output_of_one_value_for_the_batch_is_not_batched(tmp_path: Path) -> None:
    summing(tmp_path / "1", ["rows", 2], [])
    _, loaded = load(tmp_path)
    assert loaded.signature.outputs == (TensorSpec("y", Datatype.FP32, (), batched=False),)


def test_an_output_whose_rows_are_not_the_batchs_is_refused(tmp_path: Path) -> None:
    finding(tmp_path / "1")
    with pytest.raises(LoadFailed, match=r"shape \[0, 2\] for a batch of 1, so it has no row for each"):
        load(tmp_path)


def test_a_row_that_is_no_utf8_fails_alone(tmp_path: Path) -> None:
    identity(tmp_path / "1", ["rows", 1], TensorProto.STRING)
    engine, _ = load(tmp_path)
    outputs = engine.run({"x": np.array([[b"a"], [b"\xff"], ["ü".encode()]], object)}, NO_PARAMETERS * 3)
    assert isinstance(outputs, list)
    assert [row["y"].tolist() for row in (outputs[0], outputs[2])] == [["a"], ["ü"]]
    assert isinstance(outputs[1], InvalidRequest)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE])
def test_each_plain_type_runs(tmp_path: Path, kind: int) -> None:
    identity(tmp_path / "1", ["rows", 2], kind)
    engine, loaded = load(tmp_path)
    spec = loaded.signature.inputs[0]
    x = np.ones((2, 2), {"FP16": "f2", "INT64": "i8", "BOOL": "?", "FP64": "f8"}[spec.datatype])
    outputs = engine.run({"x": x}, NO_PARAMETERS * 2)
    assert isinstance(outputs, dict)
    assert (outputs["y"].dtype, outputs["y"].tolist()) == (x.dtype, x.tolist())


def test_bf16_keeps_every_bit(tmp_path: Path) -> None:
    identity(tmp_path / "1", ["rows", 2], TensorProto.BFLOAT16)
    engine, loaded = load(tmp_path)
    assert loaded.signature.inputs[0].datatype == "BF16"
    words = np.array([[0x3F80, 0x8000], [0x7FC1, 0xFF80]], np.uint16)
    for x in (words, words[:, ::-1], words[:0]):
        outputs = engine.run({"x": x.view(ml_dtypes.bfloat16)}, NO_PARAMETERS * len(x))
        assert isinstance(outputs, dict)
        assert outputs["y"].view(np.uint16).tolist() == x.tolist()


def test_bf16_without_its_package_fails_to_load_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity(tmp_path / "1", ["rows", 2], TensorProto.BFLOAT16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(LoadFailed, match="pip install ml-dtypes"):
        load(tmp_path)


def spoil_nothing(file: Path) -> None:
    file.write_bytes(b"")


def spoil_pointer(file: Path) -> None:
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")


def spoil_format(file: Path) -> None:
    file.write_bytes(b"this is no protobuf" * 10)


def remove(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize(
    ("spoil", "kind", "words"),
    [
        (remove, LoadFault.PATH, "cannot be read"),
        (spoil_nothing, LoadFault.FORMAT, "is empty"),
        (spoil_pointer, LoadFault.FORMAT, "Git LFS pointer"),
        (spoil_format, LoadFault.FORMAT, "cannot be opened by onnxruntime"),
    ],
)
def test_a_bad_file_says_what_kind_of_fault_it_has(
    tmp_path: Path, spoil: Callable[[Path], None], kind: LoadFault, words: str
) -> None:
    spoil(identity(tmp_path / "1", ["rows", 2]))
    with pytest.raises(LoadFailed, match=words) as failed:
        load(tmp_path)
    assert failed.value.kind is kind


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(LoadFailed, match=r'needs the package onnxruntime: pip install "headrace\[onnx\]"') as failed:
        load(tmp_path)
    assert failed.value.kind is LoadFault.DEPENDENCY


def test_a_device_that_is_not_there_is_never_replaced_by_the_cpu(tmp_path: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.fail("this suite expects the CPU package of onnxruntime; the GPU package has its own tests")
    identity(tmp_path / "1", ["rows", 2])
    with pytest.raises(LoadFailed, match="cuda:0 needs CUDAExecutionProvider") as failed:
        load(tmp_path, device="cuda:0")
    assert failed.value.kind is LoadFault.DEPENDENCY
