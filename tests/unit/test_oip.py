"""Open Inference Protocol JSON: every rule of docs/wire.md, and refusals that find their way home."""

import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import (
    decode_json_request,
    encode_json_request,
    read_infer_body,
    read_options,
)
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Form, Refused, Request, Undecodable

NOW_MS = 1_700_000_000_000
X = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1.5, -2]}


def body(**fields: Any) -> bytes:
    return json.dumps({"id": "a", "parameters": {"reply_to": "h.r:3"}, "inputs": [X]} | fields).encode()


def one(datatype: str, data: str, shape: str = "[1]") -> Tensor:
    """The tensor that a JSON text of data gives."""
    text = f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}'
    return read_infer_body(text.encode()).inputs["x"]


def accepted(value: bytes) -> Request:
    read = decode_json_request(value, "fallback", NOW_MS)
    assert isinstance(read, Request), read.error
    return read


def refusal(value: bytes) -> Refused:
    read = decode_json_request(value, "fallback", NOW_MS)
    assert isinstance(read, Refused), read
    assert type(read.error) is InvalidRequest
    assert (read.form, read.error.id) == (Form.JSON, read.id)
    return read


def test_a_request_comes_back_as_it_was() -> None:
    inputs = {"x": Tensor.from_array(np.array([1.5, -2.0], "<f4"))}
    sent = Request("a", inputs, Form.JSON, None, ReplyTo("h.r", 3), "t", "7", {"k": 1, "f": 0.5}, ("y",))
    read = accepted(encode_json_request(sent, deadline_s=2.5))
    assert read.deadline_ms == NOW_MS + 2500
    assert (read.id, read.reply_to, read.tenant, read.version, read.parameters, read.outputs) == (
        ("a", ReplyTo("h.r", 3), "t", "7", {"k": 1, "f": 0.5}, ("y",))
    )
    assert bytes(read.inputs["x"].data) == bytes(inputs["x"].data)


@pytest.mark.parametrize("absent", [None, "leave out"])
def test_what_is_null_or_absent_has_its_default(absent: str | None) -> None:
    fields: dict[str, Any] = {"id": None, "parameters": None, "outputs": None, "inputs": [X | {"parameters": None}]}
    text = {name: value for name, value in fields.items() if value is not None or not absent}
    read = accepted(json.dumps(text).encode())
    assert (read.id, read.deadline_ms, read.reply_to, read.parameters, read.outputs) == (
        "fallback",
        None,
        None,
        {},
        None,
    )


def test_a_byte_order_mark_and_white_space_are_skipped() -> None:
    assert accepted(b"\xef\xbb\xbf \n" + body() + b"\n").id == "a"


def test_unknown_keys_are_ignored() -> None:
    assert accepted(body(model_name="m", later={"a": [{"b": 1}], "c": "}"})).id == "a"


def test_wishes_for_binary_tensors_are_left_unmet() -> None:
    outputs = [{"name": "y", "parameters": {"binary_data": True}}]
    read = accepted(body(parameters={"binary_data_output": True}, outputs=outputs))
    assert (read.parameters, read.outputs) == ({}, ("y",))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"inputs": {}}, "inputs"),
        ({"inputs": [X, X]}, "twice"),
        ({"inputs": [X | {"datatype": "FP31"}]}, "datatype"),
        ({"inputs": [X | {"name": ""}]}, "name"),
        ({"inputs": [X | {"shape": [-1]}]}, "shape"),
        ({"inputs": [X | {"shape": [2.0]}]}, "shape"),
        ({"inputs": [X | {"shape": [1] * 17}]}, "shape"),
        ({"inputs": [X | {"shape": [3]}]}, "shape"),
        ({"inputs": [X | {"shape": [2**31, 2**31]}]}, "too short"),
        ({"inputs": [X | {"shape": [0, 2**31, 2**31], "data": []}]}, "larger than any array"),
        ({"inputs": [X | {"data": None}]}, "'x'"),
        ({"inputs": [X | {"data": "AAAA"}]}, "'x'"),
        ({"inputs": [X | {"data": {"a": 1}}]}, "'x'"),
        ({"inputs": [X | {"parameters": {"binary_data_size": 8}}]}, "binary_data_size"),
        ({"inputs": [X | {"parameters": {"shared_memory_region": "r"}}]}, "shared_memory_region"),
        ({"inputs": [{name: X[name] for name in ("name", "shape", "datatype")}]}, "no data"),
        ({"inputs": [{**X, "name": str(n)} for n in range(65)]}, "inputs"),
        ({"outputs": [{"name": "y", "parameters": {"classification": 3}}]}, "classification"),
        ({"outputs": ["y"]}, "outputs"),
        ({"outputs": [{"name": "y"}, {"name": "y"}]}, "twice"),
    ],
)
def test_a_bad_field_is_refused_to_the_return_address(fields: dict[str, Any], names: str) -> None:
    read = refusal(body(**fields))
    assert (read.id, read.reply_to) == ("a", ReplyTo("h.r", 3))
    assert names in read.error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deadline_s", 0),
        ("deadline_s", -1),
        ("deadline_s", True),
        ("deadline_s", "5"),
        ("deadline_s", 1e300),
        ("tenant", ""),
        ("tenant", 5),
        ("version", 1.5),
        ("version", "x" * 65),
        ("nested", {"a": 1}),
        ("list", []),
        ("nothing", None),
        ("triton_x", 1),
        ("big", 2**64),
    ],
)
def test_a_bad_parameter_is_refused_to_the_return_address(name: str, value: Any) -> None:
    read = refusal(body(parameters={name: value, "reply_to": "h.r:3"}))
    assert (read.id, read.reply_to) == ("a", ReplyTo("h.r", 3))


def test_more_than_64_parameters_of_the_model_are_refused() -> None:
    parameters: dict[str, Any] = {str(n): n for n in range(64)} | {"reply_to": "h.r", "deadline_s": 1}
    assert len(accepted(body(parameters=parameters)).parameters) == 64
    assert "at most 64" in refusal(body(parameters=parameters | {"more": 1})).error.message


def test_a_version_may_be_a_whole_number() -> None:
    assert read_options({"version": 3}).version == "3"


@pytest.mark.parametrize("id", [5, "a b", [], {"a": 1}, "x" * 129, ".."])
def test_a_bad_id_is_answered_under_the_fallback(id: Any) -> None:
    read = refusal(body(id=id))
    assert (read.id, read.reply_to) == ("fallback", ReplyTo("h.r", 3))


@pytest.mark.parametrize("reply_to", ["", "a:b:c", 5, None, [], "h r"])
def test_a_bad_reply_to_is_refused_without_one(reply_to: Any) -> None:
    read = decode_json_request(body(parameters={"reply_to": reply_to, "x": []}), "fallback", NOW_MS)
    assert isinstance(read, Refused)
    assert (read.id, read.reply_to) == ("a", None)


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b'"\\ud800"', b"1e400", b'"\xff"'])
def test_what_only_lenient_readers_take_still_gets_an_answer(number: bytes) -> None:
    read = refusal(body().replace(b"1.5", number))
    assert (read.id, read.reply_to) == ("a", ReplyTo("h.r", 3))


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"[]",
        b'"text"',
        b"5",
        b"{}{}",
        body()[:-1],
        body() + b"x",
        b'{"inputs":' + b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        body().replace(b"[1.5, -2]", b"[" * 100_000 + b"]" * 100_000),
    ],
    ids=range(10),
)
def test_what_is_no_json_object_is_undecodable_at_once(value: bytes) -> None:
    started = time.perf_counter()
    with pytest.raises(Undecodable) as caught:
        decode_json_request(value, "fallback", NOW_MS)
    assert caught.value.id == "fallback"
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":"a","id":"a","inputs":[]}',
        b'{"id":"a","inputs":[],"\\u0069d":"a"}',
        b'{"inputs":[],"later":{"k":1,"k" : 2}}',
        b'{"inputs":[],"parameters":{"k":1,"k":1}}',
        b'{"inputs":[{"name":"x","name":"x","shape":[1],"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1],"data":[2]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":[":\\"{"],"shape":[1]}]}',
        b'{"inputs":[],"outputs":[{"name":"y","name":"y"}]}',
        b'{"a\\"b":1,"a\\u0022b":2,"inputs":[]}',
        b'{"a\\\\":1,"a\\\\":2,"inputs":[]}',
    ],
)
def test_a_key_that_is_there_twice_is_refused(value: bytes) -> None:
    assert "twice" in refusal(value).error.message


@settings(deadline=None)
@given(st.lists(st.text(':"\\{}[],a \n', max_size=6), max_size=6), st.text(':"\\{}', max_size=6))
def test_texts_that_look_like_keys_are_no_keys(texts: list[str], key: str) -> None:
    item = {"name": "x", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    value = json.dumps({"id": "a", f"later{key}": {"id": "a"}, "inputs": [item]}).encode()
    assert accepted(value).inputs["x"].to_array().tolist() == [text.encode() for text in texts]


def test_walking_all_objects_for_keys_takes_linear_time() -> None:
    data = json.dumps([": { } \\ " * 4] * 20_000)
    value = f'{{"later":1,"inputs":[{{"name":"x","shape":[20000],"datatype":"BYTES","data":{data}}}]}}'.encode()
    started = time.perf_counter()
    assert accepted(value).id == "fallback"
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("[2,3]", "[1,2,3,4,5,6]"),
        ("[2,3]", "[ [1,2,3], [4,5,6] ]"),
        ("[2,3,1]", "[[[1],[2],[3]],[[4],[5],[6]]]"),
        ("[0,3]", "[]"),
        ("[2,0,3]", "[[],[]]"),
        ("[2,0,3]", "[]"),
        ("[]", "[7]"),
        ("[]", "7"),
        ("[1,1]", "[7]"),
    ],
)
def test_data_may_be_flat_or_nested(shape: str, data: str) -> None:
    tensor = one("INT32", data, shape)
    assert tensor.to_array().reshape(-1).tolist() == np.array(json.loads(data)).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("[2,3]", "[[1,2],[3,4],[5,6]]"),
        ("[2,3]", "[[1,2,3],[4,5]]"),
        ("[2,3]", "[[1,2,3],4,5,6]"),
        ("[2,3,1]", "[[1,2,3],[4,5,6]]"),
        ("[6]", "[[1,2,3,4,5,6]]"),
        ("[2,0,3]", "[[],[],[]]"),
        ("[]", "[[1]]"),
        ("[]", "[1,2]"),
        ("[1]", "7"),
        ("[1]", "[]"),
    ],
)
def test_nesting_and_count_must_agree_with_the_shape(shape: str, data: str) -> None:
    with pytest.raises(InvalidRequest, match="'x'"):
        one("INT32", data, shape)
