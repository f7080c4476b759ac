"""Which JSON values stand for which elements, bit by bit, and how replies are written."""

import json
import math
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk.errors import Code, HeadraceError, InferenceFailed, InvalidRequest
from producer_sdk.oip import (
    decode_json_reply,
    encode_json_error,
    encode_json_reply,
    encode_json_request,
    read_infer_body,
    tensor_to_json,
)
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.wire import Reply, Request, Undecodable

INTEGERS = {d: np.iinfo(d.lower()) for d in ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")}


def element(datatype: str, text: str, parameters: str = "{}") -> Any:
    """The one element that a JSON text gives."""
    item = f'{{"name":"x","shape":[1],"datatype":"{datatype}","parameters":{parameters},"data":[{text}]}}'
    return read_infer_body(f'{{"inputs":[{item}]}}'.encode()).inputs["x"].to_array()[0]


def strictly(value: bytes) -> Any:
    """What a reader gives that takes nothing but JSON."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    return json.loads(value, parse_constant=refuse)


@pytest.mark.parametrize("datatype", INTEGERS)
def test_integers_are_whole_and_in_range(datatype: str) -> None:
    low, high = INTEGERS[datatype].min, INTEGERS[datatype].max
    assert [int(element(datatype, str(value))) for value in (low, high)] == [low, high]
    for text in (str(low - 1), str(high + 1), "1.0", "1e2", "true", "null", "1" * 200):
        with pytest.raises(InvalidRequest):
            element(datatype, text)


@pytest.mark.parametrize("datatype", ["INT64", "UINT64"])
def test_64_bit_integers_may_be_decimal_strings(datatype: str) -> None:
    assert int(element(datatype, '"9007199254740993"')) == 9007199254740993
    for text in ('"1.0"', '"0x1"', '"01"', '" 1"', '""', '"99999999999999999999"'):
        with pytest.raises(InvalidRequest):
            element(datatype, text)


def test_narrow_integers_may_not_be_strings() -> None:
    with pytest.raises(InvalidRequest):
        element("INT32", '"1"')


@pytest.mark.parametrize("text", ["0", "1", '"true"', "null", "1.0"])
def test_booleans_are_true_or_false_only(text: str) -> None:
    assert [bool(element("BOOL", "true")), bool(element("BOOL", "false"))] == [True, False]
    with pytest.raises(InvalidRequest):
        element("BOOL", text)


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_floats_are_numbers_or_the_three_strings(datatype: str) -> None:
    assert [float(element(datatype, text)) for text in ("1", "-2.5", "1e1", '"Infinity"', '"-Infinity"')] == (
        [1.0, -2.5, 10.0, math.inf, -math.inf]
    )
    assert math.isnan(float(element(datatype, '"NaN"')))
    assert math.copysign(1.0, float(element(datatype, "-0.0"))) == -1.0
    for text in ("true", "null", '"1.5"', '"nan"', '"inf"', '"+Infinity"'):
        with pytest.raises(InvalidRequest):
            element(datatype, text)


@pytest.mark.parametrize(
    ("datatype", "most", "too_much"),
    [
        ("FP16", "65519.9", "65520"),
        ("BF16", "3.39e38", "3.4e38"),
        ("FP32", "3.4028235e38", "3.5e38"),
        ("FP64", "1.7e308", "1e309"),
    ],
)
def test_a_finite_number_never_becomes_infinite(datatype: str, most: str, too_much: str) -> None:
    assert math.isfinite(float(element(datatype, most)))
    for text in (too_much, f"-{too_much}"):
        with pytest.raises(InvalidRequest):
            element(datatype, text)


@settings(deadline=None)
@given(st.floats(width=32))
def test_fp32_survives_a_standard_json_parser(value: float) -> None:
    tensor = Tensor(Datatype.FP32, (1,), struct.pack("<f", value))
    (found,) = strictly(encode_json_reply("a", "m", "1", {"y": tensor}, {}))["outputs"][0]["data"]
    if math.isnan(value):
        assert found == "NaN"
    else:
        assert struct.pack("<f", float(found)) == bytes(tensor.data)


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bf16_in_json_is_rounded_once(value: float) -> None:
    halfway = float(np.float32(value))
    nearest = float(ml_dtypes.bfloat16(halfway))
    if np.isinf(nearest):
        return
    body = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "BF16", "data": [halfway]}]}).encode()
    read = read_infer_body(body)
    assert bytes(read.inputs["x"].data) == np.array([halfway], ml_dtypes.bfloat16).tobytes()


def test_a_value_just_off_a_bf16_tie_is_not_taken_for_the_tie() -> None:
    tie = 1.0 + 2.0**-8
    body = b'{"inputs":[{"name":"x","shape":[2],"datatype":"BF16","data":[%r,%r]}]}'
    value = body.replace(b"%r,%r", f"{tie + 2.0**-40!r},{tie - 2.0**-40!r}".encode())
    read = read_infer_body(value)
    assert struct.unpack("<2H", read.inputs["x"].data) == (0x3F81, 0x3F80)


@settings(deadline=None)
@given(st.binary(max_size=12))
def test_bytes_are_text_or_base64(value: bytes) -> None:
    tensor = Tensor.from_array(np.array([value, b"plain"], object))
    item = tensor_to_json("x", tensor)
    is_text = value.decode("utf-8", "replace").encode() == value
    assert ("parameters" in item) is not is_text
    read = read_infer_body(json.dumps({"inputs": [item]}).encode())
    assert bytes(read.inputs["x"].data) == bytes(tensor.data)


@pytest.mark.parametrize("text", ['"a"', '"====" ', '"YQ"', '"YQ= ="', '"YQ==\\n"', '"Y-_="', '"\u00e9"'])
def test_base64_is_standard_and_padded(text: str) -> None:
    assert element("BYTES", '"YQ=="', '{"content_type":"base64"}') == b"a"
    with pytest.raises(InvalidRequest, match="base64"):
        element("BYTES", text, '{"content_type":"base64"}')


def test_text_stays_text_under_another_content_type() -> None:
    assert element("BYTES", '"YQ=="', '{"content_type":"str"}') == b"YQ=="


def test_parameters_that_json_lacks_are_refused_at_the_sender() -> None:
    values: list[Any] = [math.nan, math.inf, 2**64, "\ud800", [1]]
    for value in values:
        with pytest.raises(InvalidRequest):
            encode_json_request(Request("a", {}, parameters={"k": value}), deadline_s=None)


@pytest.mark.parametrize("name", ["reply_to", "deadline_s", "tenant", "version", "triton_x", ""])
def test_a_parameter_cannot_take_a_reserved_name(name: str) -> None:
    with pytest.raises(InvalidRequest):
        encode_json_request(Request("a", {}, parameters={name: "x"}), deadline_s=None)


def test_a_reply_comes_back_as_it_was() -> None:
    outputs = {"y": Tensor.from_array(np.array([[1.5, math.nan]], "<f4"))}
    value = encode_json_reply("a", "m", "3", outputs, {"batch_rows": 4, "score": math.nan})
    assert strictly(value)["parameters"] == {"batch_rows": 4, "score": "NaN"}
    reply = decode_json_reply(value)
    assert isinstance(reply, Reply)
    assert (reply.id, reply.model, reply.version, reply.parameters["batch_rows"]) == ("a", "m", "3", 4)
    assert reply.outputs["y"].tobytes() == np.array([[1.5, math.nan]], "<f4").tobytes()
    assert not reply.outputs["y"].flags.writeable


@pytest.mark.parametrize("code", Code)
def test_an_error_has_one_shape(code: Code) -> None:
    value = encode_json_error("a", HeadraceError.from_code(code, "It \ud800 broke."))
    assert strictly(value) == {"id": "a", "error": "It ? broke.", "code": code}
    error = decode_json_reply(value)
    assert isinstance(error, HeadraceError)
    assert (type(error), error.code, error.id) == (HeadraceError._by_code[code], code, "a")


def test_an_error_may_have_no_id() -> None:
    assert strictly(encode_json_error(None, InvalidRequest("No."))) == {
        "id": None,
        "error": "No.",
        "code": "INVALID_REQUEST",
    }


@pytest.mark.parametrize("parameters", [{"x": object()}, {"x": "\ud800"}])
def test_a_reply_that_cannot_be_written_is_the_models_fault(parameters: dict[str, Any]) -> None:
    with pytest.raises(InferenceFailed):
        encode_json_reply("a", "m", "3", {}, parameters)


@pytest.mark.parametrize("value", [b"{}", b"[]", b"{", b'{"outputs":5}', b'{"id":5,"error":"x"}', b"[" * 100_000])
def test_what_is_no_reply_is_undecodable(value: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_json_reply(value)


def test_an_output_that_cannot_be_read_is_an_error_for_its_caller() -> None:
    item = b'{"name":"y","shape":[2],"datatype":"FP32","data":[1]}'
    error = decode_json_reply(b'{"id":"a","model_name":"m","outputs":[%b]}' % item)
    assert isinstance(error, InvalidRequest)
    assert error.id == "a"


@pytest.mark.parametrize(
    ("datatype", "texts"),
    [("FP32", "1,-0.0,1e-45,3.4e38,0.1"), ("FP16", "65504,1e-8"), ("FP64", "1e308,0.1"), ("BF16", "1.5,3e38")]
    + [(each, f"{limits.min},{limits.max}") for each, limits in INTEGERS.items()],
)
def test_flat_numbers_give_the_same_bits_as_nested_ones(datatype: str, texts: str) -> None:
    """Flat ones are read in one pass over the body, nested ones in two."""
    count = texts.count(",") + 1
    flat, nested = (
        read_infer_body(
            b'{"inputs":[{"name":"x","shape":%b,"datatype":"%b","data":%b}]}'
            % (shape.encode(), datatype.encode(), data.encode())
        )
        for shape, data in ((f"[{count}]", f"[{texts}]"), (f"[1,{count}]", f"[[{texts}]]"))
    )
    assert bytes(flat.inputs["x"].data) == bytes(nested.inputs["x"].data)


@pytest.mark.parametrize(
    ("datatype", "data"),
    [("INT32", "[1.5]"), ("FP32", "[true]"), ("FP32", "[1,2]"), ("FP32", "null"), ("INT8", "[128]"), ("FP32", '["x"]')],
)
def test_what_is_no_such_number_is_refused_in_one_pass_too(datatype: str, data: str) -> None:
    with pytest.raises(InvalidRequest, match="input 'x': "):
        read_infer_body(f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"{datatype}","data":{data}}}]}}'.encode())
