"""A record is read by its first byte and its CloudEvents headers, and nothing that arrives can do harm."""

import random
import time
from collections.abc import Callable

import numpy as np
import pytest

from producer_sdk.broker import Headers
from producer_sdk.errors import HeadraceError, InvalidRequest
from producer_sdk.oip import encode_json_error, encode_json_reply, encode_json_request
from producer_sdk.records import MAX_HEADER_BYTES, MAX_HEADERS, decode_record, decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import (
    Form,
    Refused,
    Reply,
    Request,
    Scalar,
    Undecodable,
    encode_error,
    encode_reply,
    encode_request,
)

NOW_MS = 1_700_000_000_000
EARLY, EARLY_MS = b"2030-01-01T01:00:00+01:00", 1_893_456_000_000
INPUTS = {
    "x": Tensor.from_array(np.arange(6, dtype="<f4").reshape(2, 3)),
    "n": Tensor.from_array(np.array([1, 2**62])),
    "t": Tensor.from_array(np.array([b"abc", "d:{\u00e9".encode()], object)),
}


def sent(id: str | None = "a", deadline_ms: int | None = None) -> Request:
    parameters: dict[str, Scalar] = {"k": 1, "f": 0.5, "s": "text", "b": True}
    return Request(id or "", INPUTS, Form.MSGPACK, deadline_ms, ReplyTo("h.r", 3), "t", "7", parameters, ("y",))


def msgpack_value(id: str | None = "a", deadline_ms: int | None = None) -> bytes:
    value = encode_request(sent("a", deadline_ms))
    return value if id else value.replace(b"\xa1a", b"\xc0", 1)


def json_value(id: str | None = "a", deadline_s: float | None = None) -> bytes:
    value = encode_json_request(sent(), deadline_s=deadline_s)
    return value if id else value.replace(b'"id":"a"', b'"id":null', 1)


VALUES = [msgpack_value, json_value]


def read(value: bytes | None, headers: Headers = ()) -> Request | Refused:
    return decode_record(value, headers, "fallback", NOW_MS)


def refusal(value: bytes, headers: Headers) -> Refused:
    found = read(value, headers)
    assert isinstance(found, Refused)
    assert type(found.error) is InvalidRequest
    assert found.reply_to == ReplyTo("h.r", 3)
    return found


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (msgpack_value(), Form.MSGPACK),
        (json_value(), Form.JSON),
        (b"\xef\xbb\xbf" + json_value(), Form.JSON),
        (b"\r\n\t " + json_value(), Form.JSON),
    ],
)
def test_the_first_byte_tells_the_form(value: bytes, form: Form) -> None:
    found = read(value)
    assert isinstance(found, Request)
    assert (found.form, found.id, found.reply_to) == (form, "a", ReplyTo("h.r", 3))


@pytest.mark.parametrize("value", [None, b"", b"[1]", b"text", b"\xff", b"\x00", b"\xef\xbb\xbf", b" "])
def test_a_value_of_neither_form_is_undecodable(value: bytes | None) -> None:
    with pytest.raises(Undecodable):
        read(value)
    with pytest.raises(Undecodable):
        decode_reply_record(value)


@pytest.mark.parametrize("value", VALUES)
def test_an_event_id_stands_in_for_a_missing_id(value: Callable[..., bytes]) -> None:
    headers = [("ce_id", b"event-1"), ("ce_partitionkey", b"k"), ("ce_later", b"\xff")]
    assert [read(value(id), headers).id for id in (None, "a")] == ["event-1", "a"]


@pytest.mark.parametrize("event_id", [b"", b"a b", b"x" * 129, b"\xff", b".."])
@pytest.mark.parametrize("value", VALUES)
def test_a_bad_event_id_is_refused_where_it_is_needed(value: Callable[..., bytes], event_id: bytes) -> None:
    assert refusal(value(None), [("ce_id", event_id)]).id == "fallback"


@pytest.mark.parametrize("value", VALUES)
def test_a_bad_event_id_does_not_matter_where_the_body_has_one(value: Callable[..., bytes]) -> None:
    assert isinstance(read(value("a"), [("ce_id", b"a b")]), Request)


@pytest.mark.parametrize("value", VALUES)
def test_an_expiry_time_is_the_deadline(value: Callable[..., bytes]) -> None:
    found = read(value(), [("ce_expirytime", EARLY)])
    assert isinstance(found, Request)
    assert found.deadline_ms == EARLY_MS


@pytest.mark.parametrize(("own_ms", "deadline_ms"), [(EARLY_MS - 1, EARLY_MS - 1), (EARLY_MS + 1, EARLY_MS)])
def test_the_earlier_of_two_deadlines_wins(own_ms: int, deadline_ms: int) -> None:
    found = read(msgpack_value("a", own_ms), [("ce_expirytime", EARLY)])
    assert isinstance(found, Request)
    assert (found.deadline_ms, found.id, found.outputs) == (deadline_ms, "a", ("y",))


@pytest.mark.parametrize(
    "headers",
    [
        [("ce_expirytime", b"tomorrow")],
        [("ce_expirytime", b"2030-01-01T00:00:00")],
        [("ce_expirytime", EARLY), ("ce_expirytime", EARLY)],
        [("content-type", b"application/cloudevents+json")],
        [("content-type", b"application/cloudevents+json; charset=latin-1")],
        [("Content-Type", b"application/cloudevents-batch+json")],
        [("h", b"")] * (MAX_HEADERS + 1),
        [("h", b"x" * MAX_HEADER_BYTES)],
    ],
)
@pytest.mark.parametrize("value", VALUES)
def test_headers_that_cannot_be_followed_are_refused(value: Callable[..., bytes], headers: Headers) -> None:
    assert refusal(value(), headers).id == "a"


def test_foreign_headers_mean_nothing() -> None:
    headers: list[tuple[str, bytes]] = [("traceparent", b"00-0-0-00"), ("ce_time", b"t"), ("h", None)]  # type: ignore[list-item]
    assert read(msgpack_value(), headers) == read(msgpack_value())


def test_replies_of_both_forms_are_read() -> None:
    outputs = {name: tensor.to_ext() for name, tensor in INPUTS.items()}
    for value in (encode_reply("a", "m", "1", outputs, {}), encode_json_reply("a", "m", "1", INPUTS, {})):
        reply = decode_reply_record(value)
        assert isinstance(reply, Reply)
        assert reply.outputs["t"].tolist() == [b"abc", "d:{\u00e9".encode()]
    for value in (encode_error("a", "m", "1", InvalidRequest("No.")), encode_json_error("a", InvalidRequest("No."))):
        assert isinstance(decode_reply_record(value), InvalidRequest)


def mutated(rng: random.Random, value: bytes) -> bytes:
    """One to four random wounds: a changed byte, a cut, a repeat, an insertion, or a length made huge."""
    wounded = bytearray(value)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(wounded)), rng.randint(1, 8)
        match rng.randrange(6):
            case 0:
                wounded[at] = rng.randrange(256)
            case 1:
                del wounded[at : at + length]
            case 2:
                wounded[at:at] = wounded[at : at + length]
            case 3:
                wounded[at:at] = rng.choice(
                    [b"{", b"[", b'"', b"\\", b":", b",", b"1e999", b"NaN", b"\\ud800", b"null"]
                )
            case 4:
                wounded[at] = rng.choice(b"\xdc\xdd\xde\xdf\xc6\xc9\xdb\x91\x81\xc1\xd4\xc0")
            case _:
                del wounded[at:]
        wounded = wounded or bytearray(b"{")
    return bytes(wounded)


@pytest.mark.parametrize("seed", [msgpack_value(), json_value(), json_value().replace(b",", b" ,\n")], ids=range(3))
def test_mutated_requests_are_requests_refusals_or_undecodable(seed: bytes) -> None:
    rng = random.Random(seed)
    outcomes = {Request: 0, Refused: 0, Undecodable: 0}
    started = time.perf_counter()
    for _ in range(7_000):
        try:
            found = read(mutated(rng, seed))
        except Undecodable:
            outcomes[Undecodable] += 1
            continue
        outcomes[type(found)] += 1
        assert not isinstance(found, Refused) or type(found.error) is InvalidRequest
    assert min(outcomes.values()) > 50, outcomes
    assert time.perf_counter() - started < 5


def test_mutated_replies_are_replies_errors_or_undecodable() -> None:
    outputs = {name: tensor.to_ext() for name, tensor in INPUTS.items()}
    for value in (encode_reply("a", "m", "1", outputs, {"k": 1}), encode_json_reply("a", "m", "1", INPUTS, {"k": 1})):
        rng = random.Random(value)
        for _ in range(1_500):
            try:
                found = decode_reply_record(mutated(rng, value))
            except Undecodable:
                continue
            assert isinstance(found, Reply | HeadraceError)
