"""The MessagePack envelope: what goes in comes out, and every fault is a refusal that finds its way home."""

from collections.abc import Callable
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk._limits import _RESERVED
from producer_sdk.errors import Code, DeadlineExceeded, HeadraceError, InferenceFailed, InvalidRequest
from producer_sdk.tensors import TENSOR_EXT, Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import (
    Form,
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

ONE = Tensor.from_array(np.array([1.5, -2.0], "<f4"))
EXT = msgpack.ExtType(TENSOR_EXT, b"\x0b\x01\x02\x00\x00\x00" + bytes(ONE.data))


def envelope(**fields: Any) -> bytes:
    """A request written with the msgpack package, with some elements replaced."""
    names = ("wire", "id", "deadline_ms", "reply_to", "tenant", "version", "parameters", "outputs", "inputs")
    values: dict[str, Any] = dict.fromkeys(names) | {
        "wire": 1,
        "id": "a",
        "reply_to": "h.replies:3",
        "inputs": {"x": EXT},
    }
    return bytes(msgpack.packb([(values | fields)[name] for name in names]))


def refusal(value: bytes) -> Refused:
    read = decode_request(value, "fallback")
    assert isinstance(read, Refused), read
    assert isinstance(read.error, InvalidRequest)
    assert read.error.id == read.id
    return read


scalars = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)


def is_free(name: str) -> bool:
    """Whether a parameter of the model may have the name."""
    return name not in _RESERVED and not name.startswith("triton_")


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=9)


@settings(deadline=None)
@given(
    parameters=st.dictionaries(names.filter(is_free), scalars, max_size=5),
    outputs=st.none() | st.lists(names, min_size=1, max_size=4, unique=True).map(tuple),
    tenant=st.none() | names,
    deadline_ms=st.none() | st.integers(0, 2**40),
    partition=st.none() | st.integers(0, 99_999),
)
def test_a_request_comes_back_as_it_was(
    parameters: dict[str, Any],
    outputs: tuple[str, ...] | None,
    tenant: str | None,
    deadline_ms: int | None,
    partition: int | None,
) -> None:
    reply_to = ReplyTo("h.replies", partition)
    sent = Request("a:b.c-d_1", {"x": ONE}, Form.MSGPACK, deadline_ms, reply_to, tenant, "7", parameters, outputs)
    assert decode_request(encode_request(sent), "fallback") == sent


def test_an_envelope_that_ends_early_has_the_defaults() -> None:
    read = refusal(bytes(msgpack.packb([1, "a", None, "h.r"])))
    assert (read.id, read.reply_to, read.error.message) == ("a", ReplyTo("h.r", None), "inputs must be a map")


def test_elements_past_the_known_ones_are_ignored() -> None:
    value = bytes(msgpack.packb([1, "a", None, None, None, None, None, None, {"x": EXT}, {"later": [1]}, 2]))
    assert isinstance(decode_request(value, "fallback"), Request)


def test_a_request_without_id_gets_the_fallback() -> None:
    read = decode_request(envelope(id=None), "topic:1:2")
    assert isinstance(read, Request)
    assert read.id == "topic:1:2"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deadline_ms", 1.5),
        ("deadline_ms", True),
        ("deadline_ms", -1),
        ("deadline_ms", 2**63),
        ("tenant", ""),
        ("tenant", "a\nb"),
        ("tenant", "x" * 129),
        ("version", 3),
        ("parameters", []),
        ("parameters", {"a": [1]}),
        ("parameters", {"a": None}),
        ("parameters", {1: 2}),
        ("parameters", {"reply_to": "h.r"}),
        ("parameters", {"triton_x": 1}),
        ("parameters", {str(n): n for n in range(65)}),
        ("outputs", []),
        ("outputs", ["y", "y"]),
        ("outputs", {"y": 1}),
        ("outputs", ["y"] * 65),
        ("inputs", None),
        ("inputs", []),
        ("inputs", {"x": [1.0]}),
        ("inputs", {"x": b"raw"}),
        ("inputs", {"": EXT}),
        ("inputs", {"x" * 257: EXT}),
        ("inputs", {"x": msgpack.ExtType(5, b"")}),
        ("inputs", {str(n): EXT for n in range(65)}),
    ],
)
def test_a_bad_field_is_refused_to_the_return_address(field: str, value: Any) -> None:
    read = refusal(envelope(**{field: value}))
    assert (read.id, read.form, read.reply_to) == ("a", Form.MSGPACK, ReplyTo("h.replies", 3))


@pytest.mark.parametrize("id", ["", "a b", "\u00e9", ".", "..", "x" * 129, 5, [[]], {"a": [[[]]]}, b"a"])
def test_a_bad_id_is_answered_under_the_fallback(id: Any) -> None:
    read = refusal(envelope(id=id))
    assert (read.id, read.reply_to) == ("fallback", ReplyTo("h.replies", 3))


@pytest.mark.parametrize("reply_to", ["", "a:b:c", "h.r:x", "h.r:123456", "h.r:-1", "h r", "..", 7, [], "x" * 300])
def test_a_bad_reply_to_is_refused_without_one(reply_to: Any) -> None:
    assert refusal(envelope(reply_to=reply_to)).reply_to is None


@pytest.mark.parametrize(
    "pairs", [b"\x82\xa1x%b\xa1x%b", b"\xde\x00\x02\xa1x%b\xa1x%b", b"\xdf\x00\x00\x00\x02\xa1x%b\xd9\x01x%b"]
)
def test_a_key_that_is_there_twice_is_refused(pairs: bytes) -> None:
    value = envelope(inputs=None)[:-1]
    ext = bytes(msgpack.packb(EXT))
    assert "twice" in refusal(value + pairs % (ext, ext)).error.message


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x90",
        b"\x91\x02",
        b"\x91\xa11",
        envelope() + b"\x00",
        envelope()[:-1],
        b"\x91" * 100_000,
        b"\x92\x01" + b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x92\x01\xdd\xff\xff\xff\xff",
        b"\x99\x01\xc6\xff\xff\xff\xff",
        b"\x92\x01\xa1\xff",
        b"\xc1",
    ],
)
def test_what_is_no_envelope_is_undecodable(value: bytes) -> None:
    with pytest.raises(Undecodable) as caught:
        decode_request(value, "fallback")
    assert caught.value.id == "fallback"


def test_deep_nesting_within_a_field_does_no_harm() -> None:
    nested: list[Any] = []
    for _ in range(400):
        nested = [nested]
    assert refusal(envelope(id=nested)).id == "fallback"


@pytest.mark.parametrize("parameters", [{"a": 2**64}, {"a": object()}, {"a": [1]}, {"a": "\ud800"}, {"tenant": "t"}])
def test_parameters_that_cannot_travel_are_refused_at_the_sender(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        encode_request(Request("a", {"x": ONE}, parameters=parameters))


def test_a_reply_comes_back_as_it_was() -> None:
    value = encode_reply("a", "m", "3", {"y": ONE.to_ext()}, {"batch_rows": 4, "run_ms": 1.25})
    reply = decode_reply(value)
    assert isinstance(reply, Reply)
    assert (reply.id, reply.model, reply.version, reply.parameters["batch_rows"]) == ("a", "m", "3", 4)
    assert reply.outputs["y"].tolist() == [1.5, -2.0]


def test_reply_parameters_may_be_written_beforehand() -> None:
    written = msgspec.Raw(msgspec.msgpack.encode({"batch_rows": 4}))
    reply = decode_reply(encode_reply("a", "m", "3", {}, written))
    assert isinstance(reply, Reply)
    assert reply.parameters == {"batch_rows": 4}


@pytest.mark.parametrize("code", Code)
def test_an_error_reply_is_the_typed_error(code: Code) -> None:
    error = decode_reply(encode_error("a", "m", "3", HeadraceError.from_code(code, "It broke.")))
    assert isinstance(error, HeadraceError)
    assert type(error) is HeadraceError._by_code[code]
    assert (error.code, error.message, error.id) == (code, "It broke.", "a")


def test_a_code_newer_than_this_release_is_kept() -> None:
    error = decode_reply(bytes(msgpack.packb([1, "a", "m", "3", "NOVEL", "Something new.", {}, {}])))
    assert isinstance(error, HeadraceError)
    assert (error.code, error.retryable) == ("NOVEL", False)


def test_an_error_reply_can_be_written_whatever_the_message_holds() -> None:
    error = decode_reply(encode_error("a", "m", "3", DeadlineExceeded("bad \ud800 text")))
    assert isinstance(error, DeadlineExceeded)
    assert error.message == "bad ? text"


def test_a_reply_that_cannot_be_written_is_the_models_fault() -> None:
    with pytest.raises(InferenceFailed):
        encode_reply("a", "m", "3", {}, {"x": object()})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x90",
        b"\x91" * 100_000,
        bytes(msgpack.packb([2, "a", "m", "1", None, None, {}, {}])),
        bytes(msgpack.packb([1, 5, "m", "1", None, None, {}, {}])),
        bytes(msgpack.packb([1, "a", "m", "1", None, None, {}, {"y": msgpack.ExtType(1, b"\x0b")}])),
    ],
)
def test_what_is_no_reply_is_undecodable(value: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_reply(value)


@pytest.mark.parametrize("output", [3, None, [1.0]])
def test_an_output_that_is_no_tensor_is_an_error_for_its_caller(output: Any) -> None:
    error = decode_reply(bytes(msgpack.packb([1, "a", "m", "1", None, None, {}, {"y": output}])))
    assert isinstance(error, InvalidRequest)
    assert error.id == "a"


@pytest.mark.parametrize("fault", [KeyError, ValueError, RuntimeError])
def test_msgspec_lets_faults_of_the_tensor_reader_through(fault: Callable[[str], Exception]) -> None:
    def reader(code: int, body: memoryview) -> object:
        raise fault("x")

    with pytest.raises(fault):  # type: ignore[call-overload]
        msgspec.msgpack.decode(b"\x81\xa1x\xd4\x01\x00", type=dict[str, Any], ext_hook=reader)
