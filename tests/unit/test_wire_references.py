"""References on the wire: to stored inputs, to stored replies, to where results are to be stored."""

import json
from typing import Any

import msgpack
import numpy as np
import pytest

from producer_sdk.dataref import DataRef
from producer_sdk.errors import DeadlineExceeded, InvalidRequest
from producer_sdk.oip import decode_json_reply, decode_json_request
from producer_sdk.tensors import TENSOR_EXT, Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import (
    Refused,
    Reply,
    Request,
    Undecodable,
    decode_reply,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
)

EXT = msgpack.ExtType(
    TENSOR_EXT, b"\x0b\x01\x02\x00\x00\x00" + bytes(Tensor.from_array(np.array([1.5, -2.0], "<f4")).data)
)
LONG = "s3://results/" + "a" * 881 + "/"


def envelope(**fields: Any) -> bytes:
    """A request of nine elements, some of them replaced."""
    names = ("wire", "id", "deadline_ms", "reply_to", "tenant", "version", "parameters", "outputs", "inputs")
    values: dict[str, Any] = {"wire": 1, "id": "a", "reply_to": "h.replies:3", "inputs": {"x": EXT}}
    return bytes(msgpack.packb([(values | fields).get(name) for name in names]))


def refusal(value: bytes) -> Refused:
    read = decode_request(value, "fallback")
    assert isinstance(read, Refused), read
    assert isinstance(read.error, InvalidRequest)
    return read


REF = {"dataref": "s3://claims/a/b", "sha256": "0" * 64, "bytes": 12, "expires_ms": 5}


def referring(ref: Any, inputs: Any = None, **fields: Any) -> bytes:
    """A request with ten elements."""
    return b"\x9a" + envelope(inputs=inputs, **fields)[1:] + bytes(msgpack.packb(ref))


@pytest.mark.parametrize("inputs", [None, {}])
def test_a_request_by_reference_has_no_inputs(inputs: Any) -> None:
    read = decode_request(referring(REF, inputs), "fallback")
    assert isinstance(read, Request)
    assert (read.ref, read.inputs) == (DataRef("s3://claims/a/b", "0" * 64, 12, 5), {})
    assert decode_request(encode_request(read), "fallback") == read


@pytest.mark.parametrize(
    ("ref", "named"),
    [
        ({"dataref": "http://a/b"}, "s3://"),
        ({"dataref": "s3://claims/a/../b"}, "could name another object"),
        ({"dataref": 7}, "dataref"),
        (REF | {"sha256": "xyz"}, "sha256"),
        (REF | {"bytes": "12"}, "bytes"),
        ([REF], "the reference must be a map"),
    ],
)
def test_a_broken_reference_is_refused_behind_its_return_address(ref: Any, named: str) -> None:
    refused = refusal(referring(ref, {}))
    assert (refused.id, refused.reply_to) == ("a", ReplyTo("h.replies", 3))
    assert named in refused.error.message


@pytest.mark.parametrize("absent", [{}, {"dataref": None}])
def test_without_a_uri_there_is_no_reference_to_any_reader(absent: dict[str, None]) -> None:
    keys = {**absent, "bytes": 3}
    request = decode_request(referring(keys, {"x": EXT}), "fallback")
    as_json = decode_json_request(json.dumps({"inputs": [], **keys}).encode(), "fallback", 0)
    pointer = decode_reply(b"\x99" + encode_reply("a", "m", "1", {}, {})[1:] + bytes(msgpack.packb(keys)))
    json_reply = decode_json_reply(json.dumps({"id": "a", "outputs": [], **keys}).encode())
    assert [each.ref for each in (request, as_json, pointer, json_reply)] == [None] * 4


def test_a_reference_that_names_a_key_twice_is_refused() -> None:
    twice = b"\x82" + 2 * (msgpack.packb("dataref") + msgpack.packb("s3://claims/a"))
    value = b"\x9a" + envelope(inputs={})[1:] + twice
    assert refusal(value).error.message == "the reference names one key twice"


def test_a_request_has_inputs_or_a_reference() -> None:
    assert "send one of the two" in refusal(referring(REF, {"x": EXT})).error.message


@pytest.mark.parametrize("text", ["s3://results/", "s3://results/a/b/"])
def test_a_return_address_may_be_a_store(text: str) -> None:
    read = decode_request(envelope(reply_to=text), "fallback")
    assert isinstance(read, Request)
    assert (read.reply_to, str(read.store), read.return_address) == (None, text, text)
    assert decode_request(encode_request(read), "fallback") == read


@pytest.mark.parametrize("text", ["s3://results/a", "s3://results", "s3://r/a/../b/", LONG])
def test_a_store_that_is_no_folder_is_refused(text: str) -> None:
    refused = refusal(envelope(reply_to=text))
    assert (refused.store, refused.reply_to) == (None, None)
    assert "reply_to" in refused.error.message


def test_a_refusal_knows_the_store_of_its_request() -> None:
    assert str(refusal(envelope(reply_to="s3://results/a/", tenant=7)).store) == "s3://results/a/"


def test_a_pointer_and_an_error_tell_where_the_reply_is_stored() -> None:
    ref = DataRef("s3://results/a.msgpack")
    pointer = decode_reply(encode_reply("a", "m", "1", {}, {"run_ms": 1.0}, ref))
    assert isinstance(pointer, Reply)
    assert (pointer.ref, pointer.outputs, pointer.parameters) == (ref, {}, {"run_ms": 1.0})
    error = decode_reply(encode_error("a", "m", "1", DeadlineExceeded(), ref))
    assert isinstance(error, DeadlineExceeded)
    assert error.ref == ref


def test_a_pointer_that_is_broken_is_no_reply() -> None:
    with pytest.raises(Undecodable, match="s3://"):
        decode_reply(bytes(msgpack.packb([1, "a", "m", "1", None, None, {}, {}, {"dataref": "file:///a"}])))
