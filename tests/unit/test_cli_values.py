"""`--input` and `--parameter` values as arrays and parameters; sample requests from a signature."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.failure import UsageError
from headrace.request_values import read_inputs, read_parameters
from headrace.sample_request import SampleRequest
from headrace.show_reply import shown
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement
from producer_sdk.tensors import Datatype, numpy_dtype


def announced(*inputs: TensorAnnouncement, v1_input: str = "prompt") -> Announcement:
    return Announcement("w", "m", ("1",), ModelState.READY, 0, 2.0, inputs=inputs, v1_input=v1_input)


def x(datatype: Datatype, *shape: int, batched: bool = True) -> TensorAnnouncement:
    return TensorAnnouncement("x", datatype, shape, batched)


@pytest.mark.parametrize(
    ("text", "spec", "shape", "values"),
    [
        ("hello", x(Datatype.BYTES, 1), (1, 1), ["hello"]),
        ('"@home"', x(Datatype.BYTES, 1), (1, 1), ["@home"]),
        ("[1, 2.5]", x(Datatype.FP32, -1), (1, 2), [1.0, 2.5]),
        ("[[1], [2]]", x(Datatype.FP32, 1), (2, 1), [1.0, 2.0]),
        ("7", x(Datatype.INT8, batched=False), (), [7]),
        ("[true]", x(Datatype.BOOL, -1), (1, 1), [True]),
        ("3", x(Datatype.UINT8), (1,), [3]),
    ],
)
def test_a_value_takes_the_announced_datatype_and_row_axis(
    text: str, spec: TensorAnnouncement, shape: tuple[int, ...], values: list[Any]
) -> None:
    array = read_inputs([f"x={text}"], announced(spec))["x"]
    assert (array.shape, array.ravel().tolist()) == (shape, values)
    assert array.dtype == (object if spec.datatype is Datatype.BYTES else numpy_dtype(spec.datatype))


@pytest.mark.parametrize(("text", "dtype"), [("hi", object), ("1", np.int64), ("1.5", np.float32), ("true", np.bool_)])
def test_a_value_for_an_unannounced_model_is_guessed(text: str, dtype: Any) -> None:
    array = read_inputs([f"x={text}"], None)["x"]
    assert (array.dtype, array.shape) == (dtype, (1, 1))


def test_an_array_comes_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 2), np.float16))
    array = read_inputs([f"x=@{tmp_path}/a.npy"], announced(x(Datatype.FP16, 3, 2)))["x"]
    assert (array.shape, array.dtype) == ((1, 3, 2), np.float16)


@pytest.mark.parametrize(
    ("pair", "datatype", "part"),
    [
        ("x", Datatype.FP32, "write --input NAME=VALUE"),
        ("y=1", Datatype.FP32, "no such input, only x"),
        ("x=[[1], [1, 2]]", Datatype.FP32, "cannot be made an array"),
        ("x=1.5", Datatype.INT32, "the model takes INT32 here"),
        ("x=300", Datatype.UINT8, "cannot be made an array"),
        ("x=word", Datatype.FP32, "the model takes FP32 here"),
        ("x=1", Datatype.BYTES, "the model takes text here"),
        ("x=@/no/such.npy", Datatype.FP32, "cannot be made an array"),
    ],
)
def test_a_value_that_does_not_fit_is_wrong_usage(pair: str, datatype: Datatype, part: str) -> None:
    with pytest.raises(UsageError, match=part.replace("[", r"\[")):
        read_inputs([pair], announced(x(datatype, -1)))


def test_a_pickled_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(UsageError, match="allow_pickle"):
        read_inputs([f"x=@{tmp_path}/a.npy"], None)


def test_parameters_are_json_or_text() -> None:
    assert read_parameters(["n=2", "f=0.5", "on=true", "word=two words"]) == {
        "n": 2, "f": 0.5, "on": True, "word": "two words",
    }  # fmt: skip


def test_a_parameter_that_is_no_scalar_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="--parameter a is no text"):
        read_parameters(["a=[1]"])


def body_of(curl: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(shlex.split(curl)[-1])
    return body


def test_a_sample_for_one_prompt_uses_v1(tmp_path: Path) -> None:
    prompt = TensorAnnouncement("text", Datatype.BYTES, (1,))
    curl = SampleRequest(announced(prompt, v1_input="text"), tmp_path).curl("http://g")
    assert "http://g/v1/infer" in curl
    assert body_of(curl) == {"model": "m", "prompt": "hello"}


def test_lists_nested_without_end_are_wrong_usage() -> None:
    deep = "[" * 100_000
    with pytest.raises(UsageError, match="--input x has too many lists"):
        read_inputs([f"x={deep}"], None)
    with pytest.raises(UsageError, match="--parameter x has too many lists"):
        read_parameters([f"x={deep}"])


@pytest.mark.parametrize("depth", [65, 900])
def test_lists_nested_deeper_than_an_array_goes_are_wrong_usage(depth: int) -> None:
    with pytest.raises(UsageError, match="--input x cannot be made an array"):
        read_inputs([f"x={'[' * depth}1{']' * depth}"], announced(x(Datatype.FP32, 1)))


@pytest.mark.parametrize("datatype", list(Datatype))
def test_a_sample_fills_its_shape_with_values_of_the_datatype(datatype: Datatype, tmp_path: Path) -> None:
    model = announced(x(datatype, -1, 2), x(datatype, batched=False))
    first, second = body_of(SampleRequest(model, tmp_path).curl("http://g"))["inputs"]
    assert (first["shape"], len(first["data"])) == ([1, 3, 2], 6)
    assert (second["shape"], len(second["data"])) == ([], 1)


def test_a_long_body_goes_through_a_file(tmp_path: Path) -> None:
    curl = SampleRequest(announced(x(Datatype.FP32, 3, 48, 192)), tmp_path).curl("http://g")
    assert shlex.split(curl)[-1] == f"@{tmp_path / 'm.json'}"
    assert len(json.loads((tmp_path / "m.json").read_text())["inputs"][0]["data"]) == 3 * 48 * 192


@pytest.mark.parametrize(
    "spec", [x(Datatype.BYTES, 1), x(Datatype.FP32, -1), x(Datatype.INT64, -1), x(Datatype.BOOL, 2)]
)
def test_the_python_line_is_python(spec: TensorAnnouncement, tmp_path: Path) -> None:
    line = SampleRequest(announced(spec), tmp_path).python("python", "127.0.0.1:1", "mine")
    code = shlex.split(line)[2]
    compile(code, "line", "exec")
    assert "'" not in code
    assert 'Client("127.0.0.1:1", prefix="mine")' in code


def test_long_outputs_are_cut_for_people() -> None:
    assert shown(np.array([b"caf\xc3\xa9", b"\xff"], object)) == "café, \ufffd"
    assert shown(np.arange(100)).endswith("11 ...")
