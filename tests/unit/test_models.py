"""The model directory: what is served, and every fault explained with file, key and reason."""

from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import doubling_onnx, python_model

from producer_sdk.tensors import Datatype
from workers.check import check_models
from workers.cpus import cgroup_cpus
from workers.manifest import Fault
from workers.models import ModelsRefused, find_models
from workers.runners.engine import ModelSpec, TensorSpec


def onnx_with(root: Path, yaml: str = "") -> Path:
    """A model `m` that has a model.onnx (not opened by these tests) and this model.yaml."""
    (root / "m" / "1").mkdir(parents=True)
    (root / "m" / "1" / "model.onnx").write_bytes(b"onnx")
    if yaml:
        (root / "m" / "model.yaml").write_text(yaml)
    return root


def only_spec(root: Path) -> ModelSpec:
    (spec,) = find_models(root)
    return spec


def only_fault(root: Path) -> Fault:
    (fault,) = check_models(root).faults
    return fault


def test_a_model_file_alone_is_served_with_defaults(tmp_path: Path) -> None:
    spec = only_spec(onnx_with(tmp_path))
    assert (spec.name, spec.version, spec.engine) == ("m", "1", "onnxruntime")
    assert (spec.max_batch_size, spec.max_wait_ms) == (32, 10.0)
    assert (spec.inputs, spec.attempt_timeout_s, spec.folder) == ((), 300.0, tmp_path / "m" / "1")


def test_the_highest_number_is_the_version_and_other_folders_are_noted(tmp_path: Path) -> None:
    for version in ("2", "10", "011", "draft"):
        doubling_onnx(tmp_path, "m", version=version)
    assert only_spec(tmp_path).version == "10"
    notes = check_models(tmp_path).faults
    assert [(Path(note.file).name, note.fatal) for note in notes] == [("011", False), ("draft", False)]


def test_only_the_models_asked_for_are_read(tmp_path: Path) -> None:
    doubling_onnx(tmp_path, "good")
    (tmp_path / "empty").mkdir()
    assert [spec.name for spec in find_models(tmp_path, ["good"])] == ["good"]
    with pytest.raises(ModelsRefused, match="there is no such model"):
        find_models(tmp_path, ["good", "absent"])


def test_every_key_is_read(tmp_path: Path) -> None:
    text = """
engine: python
max_batch_size: 8
max_wait_ms: 2.5
device: cuda:1
isolation: inline
attempt_timeout_s: 20
default_deadline_s: 60
threads: 1
parameters: {since: 2026-01-01, k: 3}
inputs: [{name: prompt, datatype: BYTES, shape: [1]}, {name: t, datatype: FP32, shape: [], batched: false}]
outputs: [{name: text, datatype: BYTES, shape: [1]}]
v1: {input: prompt, output: text}
"""
    onnx_with(tmp_path, text)
    (tmp_path / "m" / "1" / "model.py").write_text("class Model: ...")
    spec = only_spec(tmp_path)
    assert (spec.max_batch_size, spec.max_wait_ms, spec.device, spec.isolation) == (8, 2.5, "cuda:1", "inline")
    assert (spec.attempt_timeout_s, spec.default_deadline_s) == (20, 60)
    assert (spec.v1_input, spec.v1_output) == ("prompt", "text")
    assert spec.parameters == {"since": "2026-01-01", "k": 3}
    assert spec.inputs[1] == TensorSpec("t", Datatype.FP32, (), batched=False)


def test_tritons_words_mean_the_same(tmp_path: Path) -> None:
    text = """
name: m
backend: onnxruntime
platform: onnxruntime_onnx
max_batch_size: 8
dynamic_batching: {max_queue_delay_microseconds: 2500}
input: [{name: x, data_type: TYPE_FP32, dims: [-1, 4]}, {name: s, data_type: TYPE_STRING, dims: [1]}]
output: [{name: y, data_type: TYPE_INT64, dims: [1]}]
instance_group: [{count: 3, kind: KIND_GPU, gpus: [2]}]
version_policy: {latest: {num_versions: 1}}
"""
    spec = only_spec(onnx_with(tmp_path, text))
    assert (spec.engine, spec.max_wait_ms, spec.device) == ("onnxruntime", 2.5, "cuda:2")
    assert spec.inputs == (TensorSpec("x", Datatype.FP32, (-1, 4)), TensorSpec("s", Datatype.BYTES, (1,)))


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        ("dynamic_batching: {}", 0.0),
        ("dynamic_batching: {}\nmax_wait_ms: 5", 5.0),
        ("dynamic_batching: {max_queue_delay_microseconds: 100}\nmax_wait_ms: 0.1", 0.1),
    ],
)
def test_a_queue_delay_is_the_wait_to_the_microsecond(tmp_path: Path, text: str, wait_ms: float) -> None:
    assert only_spec(onnx_with(tmp_path, text)).max_wait_ms == wait_ms


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("max_bach_size: 8", "max_bach_size", "'max_bach_size' is not a known key: did you mean 'max_batch_size'?"),
        ("max_batch_size: 0", "max_batch_size", "the model has no batch axis"),
        ("max_batch_size: -1", "max_batch_size", "give a whole number from 1 to 1000000; it is -1"),
        ("max_batch_size: true", "max_batch_size", "give a whole number from 1 to 1000000; it is true"),
        ("max_wait_ms: .nan", "max_wait_ms", "give a number from 0 to 3600000; it is nan"),
        ("max_wait_ms: -1", "max_wait_ms", "give a number from 0 to 3600000; it is -1"),
        ("attempt_timeout_s: 0", "attempt_timeout_s", "give a number above 0 and at most 1000000000; it is 0"),
        ("device: gpu", "device", "give cpu or cuda:N, such as cuda:0; it is 'gpu'"),
        ("isolation: thread", "isolation", "give process or inline; it is 'thread'"),
        ("engine: tensorrt", "engine", "use one of onnxruntime, python"),
        ("engine: onnxruntime\nbackend: python", "backend", "contradict each other"),
        ("name: other", "name", "differs from the folder's name 'm'"),
        ("model_warmup: []", "model_warmup", "not supported yet"),
        (
            "dynamic_batching: {max_queue_delay_microseconds: 100}\nmax_wait_ms: 1",
            "dynamic_batching.max_queue_delay_microseconds",
            "contradict each other",
        ),
        ("inputs: [{name: x, shape: [1]}]", "inputs[0]", "datatype is missing"),
        ("inputs: [{name: x, datatype: FP23, shape: [1]}]", "inputs[0].datatype", "did you mean 'FP32'?"),
        ("inputs: [{name: x, datatype: FP32, shape: [-2]}]", "inputs[0].shape", "-1 is any length; it is [-2]"),
        ("inputs: [{name: x, datatype: FP32, shape: [1], rows: 1}]", "inputs[0].rows", "not a known key"),
        ("inputs: [{name: x, datatype: FP32, shape: [], batched: no}]", "inputs", "no input is batched"),
        ("inputs: [{name: x, datatype: FP32, shape: [], batch_axis: 1}]", "inputs[0].batch_axis", "there is no axis 1"),
        ("inputs: [{name: x, datatype: FP32, shape: [], dims: []}]", "inputs[0].dims", "give one"),
        ("instance_group: [{count: 0, kind: KIND_CPU}]", "instance_group.count", "from 1 to 256"),
        ("instance_group: [{count: 2, kind: KIND_CPU}]\nreplicas: 3", "instance_group", "means 2 replicas"),
        ("instance_group: [{kind: KIND_GPU}]", "instance_group.kind", "has a counterpart"),
        (
            "instance_group: [{kind: KIND_CPU}]\ndevice: cuda:0",
            "instance_group",
            "means device cpu, but device is cuda",
        ),
        ("version_policy: {all: {}}", "version_policy", "the highest is served"),
        ("v1: {inptu: x}", "v1.inptu", "did you mean 'input'?"),
        ("inputs: [{name: x, datatype: FP32, shape: []}]\nv1: {input: z}", "v1.input", "'z' is none of the declared"),
        ("parameters: {big: 99999999999999999999999}", "parameters", "cannot be handed to the model"),
        ("threads: 1\nthreads: 2", "", "line 2, column 1: key 'threads' is there twice"),
        ("inputs: [", "", "is broken YAML: line 1"),
        ("- a list", "", "must hold `key: value` lines"),
    ],
)
def test_a_fault_in_model_yaml_is_told_with_its_key(tmp_path: Path, text: str, key: str, reason: str) -> None:
    fault = only_fault(onnx_with(tmp_path, text))
    assert (fault.file, fault.key, fault.fatal) == (str(tmp_path / "m" / "model.yaml"), key, True)
    assert reason in fault.reason


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    onnx_with(tmp_path, "max_batch_size: no\nengine: what\ninputs: [{name: x}, {name: y}]\nfoo: 1")
    assert sorted(fault.key for fault in check_models(tmp_path).faults) == [
        *("engine", "foo", "inputs[0]", "inputs[1]", "max_batch_size"),
    ]


def with_pbtxt(root: Path) -> None:
    (onnx_with(root) / "m" / "config.pbtxt").write_text("")


def with_yml(root: Path) -> None:
    (onnx_with(root) / "m" / "model.yml").write_text("")


def with_dots(root: Path) -> None:
    doubling_onnx(root, "a.b")


def with_nothing(root: Path) -> None:
    (root / "m").mkdir()


def without_version(root: Path) -> None:
    with_nothing(root)
    (root / "m" / "model.onnx").write_bytes(b"onnx")


def with_empty_file(root: Path) -> None:
    (onnx_with(root) / "m" / "1" / "model.onnx").write_bytes(b"")


def with_both(root: Path) -> None:
    (onnx_with(root) / "m" / "1" / "model.py").write_text("")


def with_only(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        onnx_with(root)
        (root / "m" / "1" / "model.onnx").rename(root / "m" / "1" / name)

    return make


def with_wrong_engine(root: Path) -> None:
    onnx_with(root, "engine: python")


def with_folder_for_a_file(root: Path) -> None:
    (root / "m" / "1" / "model.onnx").mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "where", "reason"),
    [
        (with_pbtxt, "m/config.pbtxt", "write model.yaml"),
        (with_yml, "m/model.yml", "name it model.yaml"),
        (with_dots, "a.b", "no dots"),
        (with_nothing, "m", "has no version folder: put the model into a folder named 1"),
        (without_version, "m", "has no version folder: move model.onnx into m/1/"),
        (with_empty_file, "m/1/model.onnx", "is empty"),
        (with_folder_for_a_file, "m/1/model.onnx", "is not a file"),
        (with_both, "m/1", "say `engine:` in model.yaml"),
        (with_only("model.pkl"), "m/1", "model.pkl is refused, for pickled files can run any code"),
        (with_only("model.plan"), "m/1", "is a TensorRT engine"),
        (with_only("net.onnx"), "m/1", "rename net.onnx to model.onnx"),
        (with_wrong_engine, "m/1", "has no model.py, which engine python runs"),
    ],
)
def test_a_fault_in_the_folders_is_told_with_its_place(
    tmp_path: Path, make: Callable[[Path], None], where: str, reason: str
) -> None:
    make(tmp_path)
    fault = only_fault(tmp_path)
    assert fault.file == str(tmp_path / where)
    assert reason in fault.reason


@pytest.mark.parametrize(("given", "missing"), [("inputs", "outputs"), ("outputs", "inputs")])
def test_a_python_model_needs_what_it_takes_and_gives(tmp_path: Path, given: str, missing: str) -> None:
    python_model(tmp_path, "m")
    (tmp_path / "m" / "model.yaml").write_text(f"{given}: [{{name: x, datatype: FP32, shape: []}}]")
    fault = only_fault(tmp_path)
    assert (fault.key, fault.reason) == (missing, f"a python model needs its {missing} declared")


def test_a_directory_that_is_not_there_or_empty_is_a_fault(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in only_fault(tmp_path / "absent").reason
    assert "holds no models" in only_fault(tmp_path).reason


def test_open_threads_share_the_cores_but_one(tmp_path: Path) -> None:
    doubling_onnx(tmp_path, "a")
    doubling_onnx(tmp_path, "b", threads=1000)
    specs = {spec.name: spec for spec in find_models(tmp_path)}
    assert specs["a"].threads == max(1, (cgroup_cpus() - 1) // 2)
    assert "threads 1000 is more than" in specs["b"].warnings[0]


def test_replicas_share_the_cores_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.models.cgroup_cpus", lambda: 9)
    doubling_onnx(tmp_path, "a")
    doubling_onnx(tmp_path, "b", threads=3)
    a, b = find_models(tmp_path, replicas=4)
    assert [a.replicas, a.threads] == [4, 1]
    assert "threads 3 for each of 4 replicas is more than the 9 cores" in b.warnings[0]


def test_a_deep_check_opens_each_file(tmp_path: Path) -> None:
    doubling_onnx(tmp_path, "good")
    onnx_with(tmp_path)
    assert check_models(tmp_path).faults == ()
    (fault,) = check_models(tmp_path, deep=True).faults
    assert "cannot be opened by onnxruntime" in fault.reason
