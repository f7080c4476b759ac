"""Flat numbers are read in the one pass over the objects of a body, which changes nothing of what a body says."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk import _json_bodies
from producer_sdk.errors import HeadraceError, InvalidRequest
from producer_sdk.oip import Tail, read_infer_body

Texts = st.SearchStrategy[str]


def outcome(body: bytes, *, has_tail: bool) -> str:
    _json_bodies._describe.cache_clear()
    try:
        return repr(read_infer_body(body, Tail(memoryview(b"")) if has_tail else None))
    except HeadraceError as err:
        return f"{type(err).__name__}: {err.message}"


def in_two_passes(body: bytes, *, has_tail: bool) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json_bodies, "_read_numbers", lambda _: None)
        return outcome(body, has_tail=has_tail)


@st.composite
def objects(draw: Any, needed: dict[str, Texts], others: dict[str, Texts]) -> str:
    """Most have all keys that are needed; some lack one, or hold one twice."""
    values = needed | others | {"unknown": st.sampled_from(["null", '"FP32"', '{"a":1,"a":1}'])}
    lost = draw(st.sampled_from([None, None, None, *needed]))
    keys = [key for key in needed if key != lost] + draw(st.lists(st.sampled_from([*others, *values]), max_size=1))
    pairs = ",".join(f'"{key}":{draw(values[key])}' for key in draw(st.permutations(keys)))
    return f"{{{pairs}}}"


def lists_of(texts: Texts) -> Texts:
    return st.lists(texts, min_size=0, max_size=2).map(lambda items: f"[{','.join(items)}]")


NUMBERS = ["1", "7", "2", "2.5", "-1", "300", "-0", "1e309", "9" * 30, "9" * 400, "9" * 4400]
PARAMETERS = st.sampled_from(["null", "{}", '{"a":1}', '{"a":"FP","a":2}', '{"binary_data_size":4}', '{"x":["INT"]}'])
TENSORS = objects(
    {
        "name": st.sampled_from(['"x"', '"y"', '"FP"', '""']),
        "datatype": st.sampled_from(['"FP32"', '"FP64"', '"INT64"', '"UINT8"', '"BF16"', '"FP\\u0033\\u0032"', '"FP"']),
        "shape": st.sampled_from(["[1]", "[1]", "[2]", "[]", "[1,1]", "[0]", "[1.0]", "null"]),
        "data": st.sampled_from(NUMBERS).map("[{}]".format)
        | lists_of(st.sampled_from([*NUMBERS, '"NaN"', "true", "null", "[1]"]))
        | st.sampled_from(["null", "1"]),
    },
    {"parameters": PARAMETERS},
)
PLAIN = st.sampled_from(["FP16", "FP32", "FP64", "INT8", "UINT64"]).map(
    '{{"name":"x","datatype":"{}","shape":[2],"data":[1,-0],"parameters":{{"a":":"}}}}'.format
)
BODIES = objects(
    {"inputs": PLAIN.map("[{}]".format) | lists_of(PLAIN | TENSORS) | st.sampled_from(["null", "[]", "{}"])},
    {
        "id": st.sampled_from(["null", '""', '"a"', '"FP32"', '"INT"', "5"]),
        "parameters": PARAMETERS,
        "outputs": st.sampled_from(["null", "[]", '[{"name":"y"}]', '[{"name":"y","name":"INT"}]', "5"]),
        "dataref": st.sampled_from(["null", '"s3://bucket/key"', "5"]),
        "bytes": st.sampled_from(["null", "5"]),
    },
)


@settings(max_examples=500)
@given(BODIES, st.booleans())
def test_one_pass_and_two_agree(body: str, has_tail: bool) -> None:
    """Also on bodies with keys that are there twice, nulls, unknown keys, wrong shapes and huge numbers."""
    assert outcome(body.encode(), has_tail=has_tail) == in_two_passes(body.encode(), has_tail=has_tail)


@pytest.mark.parametrize("body", [b'{"parameters":{"x":"FP32"}}', b'{"id":"INT8"}', b'{"inputs":null,"id":"FP32"}'])
def test_a_text_that_looks_like_a_datatype_is_no_input(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the request has no inputs"):
        read_infer_body(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"parameters":{"a":"FP","deadline_s":1,"deadline_s":100},"dataref":"s3://bucket/k"}',
        b'{"id":"FP32","id":"FP32"}',
        b'{"id":"INT","id":"b","inputs":[]}',
    ],
)
def test_a_key_that_is_there_twice_is_seen_without_inputs_too(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        read_infer_body(body)
