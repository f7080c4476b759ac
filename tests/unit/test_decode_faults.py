"""What is wrong with a request is said in the words of the wire, never in those of the decoder."""

import re

import msgspec
import pytest

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import read_infer_body, read_object
from producer_sdk.records import decode_record
from producer_sdk.wire import Refused, Undecodable

JARGON = re.compile(r"`|\$|Expected|got |enum|\bint\b|\bstr\b|opcode|codec|recursion|format requires|argument")


def tensor(datatype: str = '"FP32"', shape: str = "[1]", data: str = "[1]", name: str = '"x"') -> bytes:
    item = f'{{"name": {name}, "datatype": {datatype}, "shape": {shape}, "data": {data}}}'
    return f'{{"inputs": [{item}]}}'.encode()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[1]", "the request is a list, but must be an object"),
        (b"{}", "the request has no inputs"),
        (b'{"inputs": 1}', "inputs is a whole number, but must be a list"),
        (b'{"inputs": [{}]}', "inputs[0] has no name"),
        (b'{"inputs": [], "id": 5}', "id is a whole number, but must be text or null"),
        (
            b'{"inputs": [], "parameters": {"a": []}}',
            "a value in parameters is a list, but must be a boolean, a number",
        ),
        (tensor(name='""'), "inputs[0].name must be text of at least 1 character"),
        (tensor('"float32"'), "inputs[0].datatype 'float32' is not known: use one of BOOL, UINT8, UINT16, UINT32"),
        (tensor(shape="[-1]"), "inputs[0].shape[0] must be a whole number, at least 0"),
        (tensor(shape="[1.5]"), "inputs[0].shape[0] is a number with a fraction, but must be a whole number"),
        (tensor(data="[null]"), "input 'x': data[0] is null, but must be a number"),
        (tensor(data="5"), "input 'x': data is a whole number, but must be a list"),
        (tensor('"INT8"', data="[300]"), "an element is out of the range of INT8, -128 to 127"),
        (tensor('"FP16"', data="[70000]"), "an element is out of the range of FP16, -65504 to 65504"),
        (b'{"inputs": [', "the request is no JSON: it ends too early"),
        (b'{"inputs": [], "id": "\\ud800"}', "or holds half of a surrogate pair"),
        (b'{"inputs": NaN}', "the request is no JSON: it has a fault at byte 11: invalid character"),
        (b'{"id": "\xff"}', "the request is no JSON: it is not UTF-8 at byte 8"),
        (b'{"a": ' + b"[" * 5000, "the request is no JSON: it is nested too deeply"),
    ],
)
def test_a_json_fault_says_what_and_where(body: bytes, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_infer_body(body)
    assert sentence in caught.value.message
    assert JARGON.search(caught.value.message) is None


@pytest.mark.parametrize("value", [b"hello", b"<xml/>", b"[1]", b"\x00\x00\x00\x00\x07", b"\xc1", b'"text"'])
def test_a_value_of_neither_form_is_told_both(value: bytes) -> None:
    with pytest.raises(Undecodable) as caught:
        decode_record(value, (), "t:0:1", 0)
    said = caught.value.message
    assert "either a JSON object of the Open Inference Protocol or the MessagePack array" in said
    assert f"begins with {value!r}; any other form needs its header" in said


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"\x93\x01", "its MessagePack array ends too early"),
        (b"\x90", "its MessagePack array must be a list of at least 1 element"),
        (b"\x91\xa1a", "its MessagePack array[0] is text, but must be a whole number"),
        (b"\x93\x01\x02\x03x", "its MessagePack array has a fault at byte 4: trailing characters"),
    ],
)
def test_a_broken_envelope_says_where(value: bytes, sentence: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode_record(value, (), "t:0:1", 0)
    assert caught.value.message == f"the record is no request: {sentence}"


@pytest.mark.parametrize(
    ("parameters", "inputs", "sentence"),
    [
        ({1: 2}, {}, "a key in parameters is a whole number, but must be text"),
        ({"k": []}, {}, "a value in parameters is a list, but must be a boolean, a number or text"),
        (None, {1: 2}, "a key in inputs is a whole number, but must be text"),
    ],
)
def test_a_fault_behind_the_return_address_is_in_words_too(parameters: object, inputs: object, sentence: str) -> None:
    value = msgspec.msgpack.encode([1, "a", None, None, None, None, parameters, None, inputs])
    refused = decode_record(value, (), "t:0:1", 0)
    assert isinstance(refused, Refused)
    assert refused.error.message == sentence


def test_an_object_is_read_as_it_is() -> None:
    assert read_object(b'\xef\xbb\xbf{"a": ":", "b": {"a": 1}, "c": ["\\"a\\":1"]}') == {
        "a": ":",
        "b": {"a": 1},
        "c": ['"a":1'],
    }


@pytest.mark.parametrize(
    "body",
    [b'{"a": 1, "a": 2}', b'{"prompt": "a: b", "prom\\u0070t": "c"}', b'{"a": {"b": 1, "b": 2}}'],
)
def test_an_object_with_a_key_twice_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        read_object(body)
