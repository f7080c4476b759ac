"""Protobuf of the Open Inference Protocol is read typed or raw, written raw, and no bytes do harm."""

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._protobuf_schema import ModelInferRequest, ModelInferResponse
from producer_sdk.dataref import DataRef
from producer_sdk.errors import DeadlineExceeded, HeadraceError, InferenceFailed, InvalidRequest
from producer_sdk.oip_protobuf import CODEC
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Refused, Reply, Request, Undecodable

NOW_MS = 1_700_000_000_000
X = np.array([[1.5, -2]], np.float32)
FULL = Request(
    "a-1",
    {"x": Tensor.from_array(X), "t": Tensor.from_array(np.array([b"", b"\xff\x00"], object))},
    reply_to=ReplyTo("h.r", 3),
    tenant="t",
    version="7",
    parameters={"whole": -(2**63), "large": 2**64 - 1, "real": 0.5, "text": "\u00e9", "flag": False},
    outputs=("y", "z"),
)
REF = DataRef("s3://claims/x", "0" * 64, 20, 99)


def read(message: Any) -> Request | Refused:
    return CODEC.decode_request(message.SerializeToString(), "fallback", NOW_MS)


def typed(datatype: str, shape: list[int], **contents: list[Any]) -> Any:
    message = ModelInferRequest(id="a-1")
    message.parameters["reply_to"].string_param = "h.r:3"
    item = message.inputs.add(name="x", datatype=datatype, shape=shape)
    for field, elements in contents.items():
        getattr(item.contents, field).extend(elements)
    return message


def refusal(message: Any) -> str:
    found = read(message)
    assert isinstance(found, Refused)
    assert (type(found.error), found.reply_to, found.error.id) == (InvalidRequest, ReplyTo("h.r", 3), found.id)
    return found.error.message


def test_a_request_comes_back_as_it_was_written() -> None:
    found = CODEC.decode_request(CODEC.encode_request(FULL, deadline_s=2.5), "fallback", NOW_MS)
    assert isinstance(found, Request)
    for field in ("id", "inputs", "reply_to", "tenant", "version", "parameters", "outputs", "ref", "store"):
        assert getattr(found, field) == getattr(FULL, field), field
    assert found.deadline_ms == NOW_MS + 2500


def test_a_request_may_refer_to_stored_inputs() -> None:
    found = CODEC.decode_request(CODEC.encode_request(Request("a", {}, ref=REF), deadline_s=None), "fallback", 0)
    assert isinstance(found, Request)
    assert (found.ref, found.parameters) == (REF, {})


@pytest.mark.parametrize(
    ("datatype", "field", "dtype", "elements"),
    [
        ("BOOL", "bool_contents", "?", [True, False]),
        ("INT8", "int_contents", "i1", [-128, 127]),
        ("INT16", "int_contents", "<i2", [-(2**15), 2**15 - 1]),
        ("INT32", "int_contents", "<i4", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", "<i8", [-(2**63), 2**63 - 1]),
        ("UINT8", "uint_contents", "u1", [0, 255]),
        ("UINT16", "uint_contents", "<u2", [0, 2**16 - 1]),
        ("UINT32", "uint_contents", "<u4", [0, 2**32 - 1]),
        ("UINT64", "uint64_contents", "<u8", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", "<f4", [0.1, -np.inf]),
        ("FP64", "fp64_contents", "<f8", [0.1, 5e-324]),
    ],
)
def test_typed_contents_are_read(datatype: str, field: str, dtype: str, elements: list[Any]) -> None:
    found = read(typed(datatype, [2], **{field: elements}))
    assert isinstance(found, Request)
    array = found.inputs["x"].to_array()
    assert (array.dtype, array.tolist()) == (np.dtype(dtype), np.array(elements, dtype).tolist())


def test_typed_bytes_are_read() -> None:
    found = read(typed("BYTES", [3], bytes_contents=[b"", b"\xff\x00", b"abc"]))
    assert isinstance(found, Request)
    assert found.inputs["x"].to_array().tolist() == [b"", b"\xff\x00", b"abc"]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.bool_, np.uint64])
def test_raw_contents_are_read_for_every_datatype(dtype: Any) -> None:
    array = np.array([1, 0], dtype)
    found = CODEC.decode_request(CODEC.encode_request(Request("a", {"x": Tensor.from_array(array)}), deadline_s=None),
                                 "f", 0)  # fmt: skip
    assert isinstance(found, Request)
    assert found.inputs["x"].to_array().tobytes() == array.tobytes()


def test_a_tensor_without_elements_needs_no_contents() -> None:
    found = read(typed("FP16", [2, 0]))
    assert isinstance(found, Request)
    assert found.inputs["x"].to_array().shape == (2, 0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (typed("FP32", [3], fp32_contents=[1, 2]), "takes 12 bytes, not 8"),
        (typed("FP32", [1], fp64_contents=[1]), "send them in fp32_contents"),
        (typed("BF16", [1], fp32_contents=[1]), "send them as raw contents"),
        (typed("INT8", [1], int_contents=[128]), "beyond what INT8 holds"),
        (typed("FP32", [-1], fp32_contents=[1]), "dimensions are 0 to"),
        (typed("FP32", [2**40, 0]), "dimensions are 0 to"),
        (typed("FP32", [1] * 17, fp32_contents=[1]), "17 dimensions"),
        (typed("FLOAT", [1]), "datatype 'FLOAT' is not known"),
    ],
)
def test_faults_of_a_tensor_are_told_to_the_return_address(message: Any, reason: str) -> None:
    assert reason in refusal(message)


def test_what_contradicts_itself_is_refused() -> None:
    both = typed("FP32", [1], fp32_contents=[1])
    both.raw_input_contents.append(bytes(4))
    assert "send one of the two" in refusal(both)
    few = typed("FP32", [1], fp32_contents=[1])
    few.raw_input_contents.extend([bytes(4), bytes(4)])
    assert "2 of 1 tensors" in refusal(few)
    versions = typed("FP32", [1], fp32_contents=[1])
    versions.model_version = "1"
    versions.parameters["version"].string_param = "2"
    assert "model_version is '1'" in refusal(versions)
    twice = typed("FP32", [1], fp32_contents=[1])
    twice.inputs.append(twice.inputs[0])
    assert "twice" in refusal(twice)


def test_parameters_that_mean_nothing_here_are_refused() -> None:
    empty = typed("FP32", [1], fp32_contents=[1])
    empty.parameters["k"].SetInParent()
    assert "parameter 'k' has no value" in refusal(empty)
    shared = typed("FP32", [1])
    shared.inputs[0].parameters["shared_memory_region"].string_param = "r"
    assert "shared_memory_region is not taken" in refusal(shared)


def test_a_request_without_inputs_and_one_with_a_bad_id_are_refused() -> None:
    bare = typed("FP32", [1], fp32_contents=[1])
    del bare.inputs[:]
    assert "no inputs" in refusal(bare)
    bad = typed("FP32", [1], fp32_contents=[1])
    bad.id = "a b"
    assert "id" in refusal(bad)


def test_a_pointer_and_a_stored_error_say_where_the_reply_lies() -> None:
    pointer = CODEC.decode_reply(CODEC.encode_reply("a", "m", "1", {}, {"batch_rows": 2, "run_ms": 0.5}, REF))
    assert isinstance(pointer, Reply)
    assert (pointer.ref, pointer.parameters, pointer.outputs) == (REF, {"batch_rows": 2, "run_ms": 0.5}, {})
    error = CODEC.decode_reply(CODEC.encode_error("a", "m", "1", DeadlineExceeded("late"), REF))
    assert isinstance(error, DeadlineExceeded)
    assert (error.ref, error.message, error.parameters) == (REF, "late", {})


def test_a_reply_that_cannot_be_written_fails_its_request_alone() -> None:
    for name, parameters in (("y", {"k": [1]}), ("y", {"k": 2**64}), ("\ud800", {})):
        with pytest.raises(InferenceFailed, match="cannot be written"):
            CODEC.encode_reply("a", "m", "1", {name: Tensor.from_array(X)}, parameters)


def test_a_typed_response_of_another_server_is_read() -> None:
    message = ModelInferResponse(id="a", model_name="m")
    message.outputs.add(name="y", datatype="INT64", shape=[2]).contents.int64_contents.extend([1, -2])
    reply = CODEC.decode_reply(message.SerializeToString())
    assert isinstance(reply, Reply)
    assert reply.outputs["y"].tolist() == [1, -2]


def test_a_large_message_is_taken_with_raw_contents_and_not_with_what_grows_in_memory() -> None:
    wide = np.zeros((1, 6_000_000), np.float32)
    raw = CODEC.encode_request(Request("a", {"x": Tensor.from_array(wide)}), deadline_s=None)
    found = CODEC.decode_request(raw, "fallback", NOW_MS)
    assert isinstance(found, Request)
    assert found.inputs["x"].shape == wide.shape
    typed_contents = typed("FP32", [6_000_000], fp32_contents=[0.5] * 6_000_000).SerializeToString()
    for value, reason in (
        (typed_contents, "send tensors raw"),
        (b"\x2a\x00" * 600_000, "more than 1024 fields"),
        (b"\x2b" + bytes(2_000_000), "no protobuf message"),
        (b"\x2a" + b"\xff" * 2_000_000, "no protobuf message"),
        (raw[:-1], "no protobuf message"),
    ):
        with pytest.raises(Undecodable, match=reason):
            CODEC.decode_request(value, "fallback", NOW_MS)


def tried(value: bytes) -> None:
    for decode in (lambda: CODEC.decode_request(value, "fallback", NOW_MS), lambda: CODEC.decode_reply(value)):
        try:
            found = decode()
        except Undecodable:
            continue
        assert isinstance(found, Request | Refused | Reply | HeadraceError)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(value: bytes) -> None:
    tried(value)


def test_no_mutation_does_harm() -> None:
    rng = random.Random(7)
    whole = [CODEC.encode_request(FULL, deadline_s=2.5), CODEC.encode_reply("a", "m", "1", FULL.inputs, {"k": 1}, REF)]
    for _ in range(3000):
        value = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 4)):
            value[rng.randrange(len(value))] = rng.randrange(256)
        tried(bytes(value[: rng.randint(1, len(value))] if rng.random() < 0.3 else value))
