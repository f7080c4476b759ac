"""Large arrays are read and written in parts, which changes nothing of what they say."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from producer_sdk import _json_tensors
from producer_sdk._json_tensors import read_data, write_large_data
from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import decode_json_reply, encode_json_reply
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.wire import Reply


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_tensors, "PART_BYTES", 8)
    monkeypatch.setattr(_json_tensors, "_PART_ELEMENTS", 4)


def whole(datatype: Datatype, shape: tuple[int, ...], text: str, patch: pytest.MonkeyPatch) -> Any:
    """What reading at one go gives: a tensor, or the sentence of the refusal."""
    with patch.context() as at_once:
        at_once.setattr(_json_tensors, "PART_BYTES", 1 << 20)
        return outcome(datatype, shape, text)


def outcome(datatype: Datatype, shape: tuple[int, ...], text: str) -> Any:
    try:
        tensor = read_data(datatype, shape, msgspec.Raw(text.encode()), False)
    except InvalidRequest as err:
        return err.message
    return tensor.datatype, tensor.shape, bytes(tensor.data)


MANY = list(range(60))
TEXTS = [
    json.dumps(MANY),
    json.dumps(MANY, separators=(",", ":")),
    json.dumps(MANY, indent=3),
    json.dumps(MANY)[:-1] + ",]",
    json.dumps(MANY)[:-1] + ", ,7]",
    json.dumps(MANY[:-1]),
    json.dumps([*MANY, 1]),
    json.dumps([*MANY[:30], [30], *MANY[31:]]),
    json.dumps([MANY]),
    json.dumps([*MANY[:-1], "x"]),
    json.dumps([*MANY[:-1], "1,2"]),
    json.dumps([*MANY[:-1], 300]),
    json.dumps([*MANY[:-1], None]),
    json.dumps([*MANY[:-1], 1.5]),
    json.dumps([*MANY[:-1], "NaN"]),
]


@pytest.mark.parametrize("datatype", [Datatype.UINT8, Datatype.INT64, Datatype.FP16, Datatype.BF16, Datatype.FP32])
@pytest.mark.parametrize("text", TEXTS)
def test_parts_say_what_the_whole_says(datatype: Datatype, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((60,), (1, 60), (2, 30)):
        assert outcome(datatype, shape, text) == whole(datatype, shape, text, monkeypatch)


@pytest.mark.parametrize("elements", range(40, 60))
@pytest.mark.parametrize("comma", [",", ", ", ",\n  "])
def test_a_comma_behind_the_last_element_is_refused_wherever_it_falls(elements: int, comma: str) -> None:
    text = json.dumps(list(range(elements)))[:-1] + comma + "]"
    assert isinstance(outcome(Datatype.UINT8, (elements,), text), str)


def test_a_large_array_is_read_in_parts() -> None:
    assert _json_tensors._read_in_parts(Datatype.UINT8, 60, json.dumps(MANY).encode()) == bytes(MANY)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(60, dtype=np.float32).reshape(3, 20),
        np.array([0.1, np.nan, np.inf, -0.0] * 15, np.float64),
        np.arange(60) % 2 == 0,
        np.arange(60, dtype=np.uint64) + 2**63,
        np.array(["a", "b"] * 30, object),
    ],
)
def test_a_large_array_that_is_written_comes_back(array: Any) -> None:
    read = decode_json_reply(encode_json_reply("a", "m", "1", {"y": Tensor.from_array(array)}, {}))
    assert isinstance(read, Reply)
    expected = Tensor.from_array(array)
    assert Tensor.from_array(read.outputs["y"]).data == expected.data
    assert (write_large_data(expected) is None) == (expected.datatype is Datatype.BYTES)
