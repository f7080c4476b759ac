"""A check of a model directory: it lists what is there, names causes alone, and speaks to people."""

from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import doubling_onnx, python_model

from workers.check import FoundModel, check_models
from workers.manifest import Fault
from workers.models import ModelsRefused, find_models


def onnx_with(root: Path, yaml: str = "") -> Path:
    """A model `m` whose model.onnx is none, with this model.yaml."""
    (root / "m" / "1").mkdir(parents=True)
    (root / "m" / "1" / "model.onnx").write_bytes(b"onnx")
    (root / "m" / "model.yaml").write_text(yaml)
    return root


def only_fault(root: Path) -> Fault:
    (fault,) = check_models(root).faults
    return fault


def test_a_deep_check_tells_paths_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_with(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    (fault,) = check_models(Path("models"), deep=True).faults
    assert fault.file == "models/m/1/model.onnx"
    assert str(tmp_path) not in fault.reason


def test_a_check_lists_what_it_has_found(tmp_path: Path) -> None:
    doubling_onnx(tmp_path, "a", version="3", max_batch_size=4)
    python_model(tmp_path, "b", "class Model: ...")
    (tmp_path / "c").mkdir()
    assert check_models(tmp_path).models == (
        FoundModel("a", "3", "onnxruntime", 4, servable=True),
        FoundModel("b", "1", "python", 32, servable=False),
        FoundModel("c", None, None, None, servable=False),
    )


@pytest.mark.parametrize(
    "text",
    [
        "outputs: [{name: y, datatype: float32, shape: [1]}]",
        "outputs: [{name: y, datatype: FP32, shpae: [1]}]",
        "ouputs: [{name: y, datatype: FP32, shape: [1]}]",
        "outputs: {name: y}",
        "outputs: []\noutput: []",
        "outputs: [{name: y, datatype: FP32, shape: [1]}]\noutputs: []",
        "outputs: [",
        "engine: pyton",
    ],
)
def test_of_a_fault_only_the_cause_is_told(tmp_path: Path, text: str) -> None:
    python_model(tmp_path, "m")
    inputs = "inputs: [{name: x, datatype: FP32, shape: [2]}]\n"
    (tmp_path / "m" / "model.yaml").write_text(inputs + text)
    assert only_fault(tmp_path).reason != ""


def test_an_input_that_cannot_be_read_does_not_make_the_others_faulty(tmp_path: Path) -> None:
    inputs = "inputs: [{name: x, datatype: F, shape: []}, {name: t, datatype: FP32, shape: [], batched: no}]"
    assert only_fault(onnx_with(tmp_path, f"{inputs}\nv1: {{input: x}}")).key == "inputs[0].datatype"


def test_an_engine_that_cannot_be_read_leaves_the_choice_of_files_alone(tmp_path: Path) -> None:
    onnx_with(tmp_path, "engine: onxruntime")
    (tmp_path / "m" / "1" / "model.py").write_text("")
    assert only_fault(tmp_path).key == "engine"


def test_faults_of_either_list_hide_none_of_the_other(tmp_path: Path) -> None:
    python_model(tmp_path, "m")
    (tmp_path / "m" / "model.yaml").write_text("inputs: 5\n")
    assert [fault.key for fault in check_models(tmp_path).faults] == ["inputs", "outputs"]


@pytest.mark.parametrize("make", [doubling_onnx, python_model])
def test_a_models_own_folder_is_no_model_directory(tmp_path: Path, make: Callable[[Path, str], Path]) -> None:
    make(tmp_path / "models", "greeter")
    fault = only_fault(tmp_path / "models" / "greeter")
    assert fault.reason == f"is the folder of one model: name the folder above it, {tmp_path / 'models'}"
    with pytest.raises(ModelsRefused, match="is the folder of one model"):
        find_models(tmp_path / "models" / "greeter")


def test_a_model_may_be_named_as_a_number(tmp_path: Path) -> None:
    doubling_onnx(tmp_path, "7")
    assert [spec.name for spec in find_models(tmp_path)] == ["7"]


@pytest.mark.parametrize("key", ["threads", "max_batch_size", "max_wait_ms", "device", "parameters", "v1", "inputs"])
def test_no_fault_speaks_the_language_of_a_library(tmp_path: Path, key: str) -> None:
    for value in ("four", "[[1]]", "{a: [1]}", ""):
        onnx_with(tmp_path / (value or "none"), f"{key}: {value}")
        for fault in check_models(tmp_path / (value or "none")).faults:
            assert fault.reason.startswith(("give ", "'a' is not a known key"))
