"""Binary tensors behind the JSON of Open Inference Protocol: each gets its own bytes, and none is guessed."""

import json
import struct
from typing import Any

import pytest

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import Tail, encode_json_reply, read_infer_body
from producer_sdk.tensors import Datatype, Tensor


def tensor(name: str, nbytes: object, datatype: str = "FP32", **more: Any) -> dict[str, Any]:
    size = {"parameters": {"binary_data_size": nbytes}}
    return {"name": name, "datatype": datatype, "shape": [2]} | size | more


def inputs_of(inputs: list[dict[str, Any]], content: bytes) -> dict[str, Tensor]:
    return read_infer_body(json.dumps({"inputs": inputs}).encode(), Tail(memoryview(content))).inputs


@pytest.mark.parametrize("first", [b"a", b"b"])
def test_inputs_take_their_bytes_in_turn(first: bytes) -> None:
    """The second time the description is known, and the bytes are others."""
    read = inputs_of([tensor("x", 8), tensor("n", 4, "INT16")], first * 8 + b"cccc")
    assert {name: (each.datatype, each.shape, bytes(each.data)) for name, each in read.items()} == {
        "x": (Datatype.FP32, (2,), first * 8),
        "n": (Datatype.INT16, (2,), b"cccc"),
    }


def test_inputs_in_json_may_stand_between_binary_ones() -> None:
    plain = {"name": "y", "datatype": "FP32", "shape": [1], "data": [1.5]}
    read = inputs_of([tensor("x", 8), plain, tensor("t", 10, "BYTES")], bytes(8) + b"\1\0\0\0a" * 2)
    assert bytes(read["y"].data) == struct.pack("<f", 1.5)
    assert read["t"].to_array().tolist() == [b"a", b"a"]


@pytest.mark.parametrize(
    ("inputs", "nbytes", "sentence"),
    [
        ([tensor("x", 8)], 7, "input 'x': its 8 bytes do not follow the JSON: 7 are left"),
        ([tensor("x", 8)], 9, "1 bytes follow the JSON that no input's binary_data_size takes"),
        ([tensor("x", 4)], 4, "takes 8 bytes, not 4"),
        ([tensor("x", "8")], 8, "binary_data_size '8' is not valid"),
        ([tensor("x", -8)], 8, "binary_data_size -8 is not valid"),
        ([tensor("x", True)], 1, "binary_data_size True is not valid"),
        ([tensor("x", 8, data=[1.0, 2.0])], 8, "has both data and binary_data_size"),
        ([tensor("x", int("9" * 4000))], 8, "999... bytes do not follow the JSON: 8 are left"),
        ([tensor("x", -int("9" * 4000))], 8, "999... is not valid"),
        ([tensor("x", 2, "BOOL")], 2, "neither 0 nor 1"),
        ([tensor("x", 8, "BYTES")], 8, "input 'x'"),
        ([tensor("x", 8), tensor("x", 8)], 16, "name one tensor twice"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(inputs: list[dict[str, Any]], nbytes: int, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        inputs_of(inputs, b"\2" * nbytes)
    assert sentence in refused.value.message
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
def test_data_that_is_null_is_no_data(datatype: str) -> None:
    read = inputs_of([tensor("x", 8, datatype, data=None)], bytes(8))
    assert bytes(read["x"].data) == bytes(8)


def test_a_size_that_is_null_is_none() -> None:
    read = inputs_of([tensor("x", None, data=[1.0, 2.0])], b"")
    assert bytes(read["x"].data) == struct.pack("<2f", 1.0, 2.0)


@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
@pytest.mark.parametrize("extension", ["shared_memory_region", "classification"])
def test_what_is_not_taken_is_refused_beside_bytes_too(datatype: str, extension: str) -> None:
    asked = tensor("x", 8, datatype, parameters={"binary_data_size": 8, extension: "r"})
    with pytest.raises(InvalidRequest, match=f"input 'x': it asks for {extension}"):
        inputs_of([asked], bytes(8))


def test_without_a_tail_binary_tensors_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="binary_data_size, which is not taken"):
        read_infer_body(json.dumps({"inputs": [tensor("x", 8)]}).encode())


def test_wishes_are_read_by_output() -> None:
    outputs = [{"name": "a", "parameters": {"binary_data": True}}, {"name": "b", "parameters": {"binary_data": False}}]
    body = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}],
        "outputs": [*outputs, {"name": "c"}],
    }
    assert read_infer_body(json.dumps(body).encode()).binary_data == {"a": True, "b": False}


def test_a_reply_says_how_many_bytes_follow_it() -> None:
    outputs = {"a": Tensor(Datatype.FP32, (2,), bytes(8)), "b": Tensor(Datatype.FP32, (1,), bytes(4))}
    written = json.loads(encode_json_reply("r", "m", "1", outputs, {}, binary=["a"]))
    assert written["outputs"] == [
        {"name": "a", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
        {"name": "b", "datatype": "FP32", "shape": [1], "data": [0.0]},
    ]
