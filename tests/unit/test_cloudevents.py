"""A CloudEvent in either mode asks what its data asks; what is wrong with it is said by name to whom it concerns."""

import base64
import json
import random
from typing import Any

import numpy as np
import pytest

from producer_sdk.broker import Headers
from producer_sdk.cloudevents import as_binary, cause_of
from producer_sdk.dataref import DataRef
from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import encode_json_request
from producer_sdk.records import decode_record
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Form, Refused, Request, Undecodable, encode_request

NOW_MS = 1_700_000_000_000
ASKED = Request("a", {"x": Tensor.from_array(np.array([[1.5, -2.0]], "<f4"))}, reply_to=ReplyTo("h.r", 3))
MSGPACK = encode_request(ASKED).replace(b"\xa1a", b"\xc0", 1)
JSON = encode_json_request(ASKED, deadline_s=None).replace(b'"id":"a"', b'"id":null', 1)
VALUES = {Form.MSGPACK: MSGPACK, Form.JSON: JSON}
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
NEEDED = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order"}
URI, SHA = "s3://bucket/key", "ab" * 32


def binary(**attributes: str | None) -> Headers:
    """The headers of an event; None leaves one out."""
    known = {**NEEDED, **attributes}
    return [(f"ce_{name}", text.encode()) for name, text in known.items() if text is not None]


def typed(content_type: str, **attributes: str | None) -> Headers:
    return [*binary(**attributes), ("content-type", content_type.encode())]


def structured(**fields: Any) -> bytes:
    known = {**NEEDED, "data": json.loads(JSON), **fields}
    return json.dumps({name: value for name, value in known.items() if value is not None}).encode()


def read(value: bytes | None, headers: Headers) -> Request | Refused:
    return decode_record(value, headers, "fallback", NOW_MS)


def asked(value: bytes | None, headers: Headers) -> Request:
    found = read(value, headers)
    assert isinstance(found, Request), found
    return found


def refusal(value: bytes | None, headers: Headers) -> Refused:
    found = read(value, headers)
    assert isinstance(found, Refused), found
    assert type(found.error) is InvalidRequest
    assert found.error.id == found.id
    return found


def is_asked(found: Request, form: Form) -> bool:
    same = found.inputs["x"].to_array().tolist() == [[1.5, -2.0]] and found.reply_to == ReplyTo("h.r", 3)
    return same and (found.id, found.form) == ("e-1", form)


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        (Form.JSON, "application/json"),
        (Form.JSON, "Application/JSON; charset=utf-8"),
        (Form.JSON, "application/vnd.shop.order+json"),
        (Form.JSON, "text/json"),
        (Form.JSON, "application/octet-stream"),
        (Form.JSON, ""),
        (Form.MSGPACK, "application/vnd.msgpack"),
        (Form.MSGPACK, "application/msgpack"),
        (Form.MSGPACK, "application/x-msgpack"),
        (Form.MSGPACK, "application/octet-stream"),
        (Form.MSGPACK, ""),
    ],
)
def test_an_event_in_binary_mode_asks_what_its_value_asks(form: Form, content_type: str) -> None:
    assert is_asked(asked(VALUES[form], typed(content_type)), form)
    assert is_asked(asked(VALUES[form], binary()), form)


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        ("text/plain", Form.JSON),
        ("application/xml", Form.MSGPACK),
        ("application/json; charset=latin-1", Form.JSON),
        ("application/json", Form.MSGPACK),
        ("application/msgpack", Form.JSON),
    ],
)
def test_data_of_a_type_that_is_not_taken_is_refused_by_name(content_type: str, form: Form) -> None:
    found = refusal(VALUES[form], typed(content_type))
    assert (found.id, found.reply_to, found.form) == ("e-1", ReplyTo("h.r", 3), form)
    assert content_type in found.error.message


def test_content_types_of_records_that_are_no_events_mean_nothing() -> None:
    assert asked(MSGPACK, [("content-type", b"text/plain"), ("ce_id", b"e-1")]).id == "e-1"


@pytest.mark.parametrize("missing", NEEDED)
def test_what_an_event_lacks_is_said_by_name_in_either_mode(missing: str) -> None:
    for without in (None, ""):
        for found in (
            refusal(JSON, binary(**{missing: without})),
            refusal(structured(**{missing: without}), STRUCTURED),
        ):
            assert f"CloudEvent: {missing} missing" in found.error.message
            assert found.id == ("fallback" if missing == "id" else "e-1")
            assert found.reply_to == ReplyTo("h.r", 3)


@pytest.mark.parametrize("name", ["specversion", "source", "type"])
def test_one_attribute_of_events_makes_a_record_an_event(name: str) -> None:
    left = {other: None for other in NEEDED if other not in (name, "id")}
    assert "missing" in refusal(JSON, binary(**left)).error.message


def test_another_version_of_cloudevents_is_refused() -> None:
    for found in (refusal(JSON, binary(specversion="0.3")), refusal(structured(specversion="0.3"), STRUCTURED)):
        assert "'0.3'" in found.error.message


@pytest.mark.parametrize("form", Form)
def test_a_structured_event_asks_what_its_data_asks(form: Form) -> None:
    encoded = base64.b64encode(VALUES[form]).decode()
    assert is_asked(asked(structured(data=None, data_base64=encoded), STRUCTURED), form)


@pytest.mark.parametrize("value", [structured(), structured(data=JSON.decode()), b"\xef\xbb\xbf \n" + structured()])
def test_data_of_a_structured_event_may_be_an_object_or_its_text(value: bytes) -> None:
    assert is_asked(asked(value, STRUCTURED), Form.JSON)


def test_attributes_of_a_structured_event_count_and_headers_of_the_same_name_do_not() -> None:
    headers = [*STRUCTURED, ("ce_id", b"other"), ("ce_expirytime", b"2029-01-01T00:00:00Z"), ("x", b"kept")]
    found = asked(structured(expirytime="2030-01-01T00:00:00Z", partitionkey="k", traced=True, count=7), headers)
    assert (found.id, found.deadline_ms) == ("e-1", 1_893_456_000_000)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (structured(data=None), "the event's data: the record has no value"),
        (structured(data="text"), "the event's data"),
        (structured(data=[1]), "the event's data"),
        (structured(data_base64="e30="), "data and data_base64"),
        (structured(data=None, data_base64="no base64!"), "data_base64"),
        (structured(data=None, data_base64="/w=="), "the event's data"),
        (structured(datacontenttype="text/plain"), "'text/plain'"),
        (structured(Upper="x"), "'Upper'"),
        (structured(extension={"a": 1}), "extension"),
        (structured(expirytime="soon"), "ce_expirytime"),
        (structured()[:-1] + b', "source": "/b"}', "'source' twice"),
        (structured()[:-1] + b', "extension": "' + b"x" * 20_000 + b'"}', "16384"),
    ],
)
def test_what_is_wrong_with_a_structured_event_is_answered(value: bytes, words: str) -> None:
    assert words in refusal(value, STRUCTURED).error.message


@pytest.mark.parametrize(
    ("value", "content_type", "words"),
    [
        (b"[" + structured() + b"]", "application/cloudevents-batch+json", "batch mode"),
        (b"\x0a\x03", "application/cloudevents+protobuf", "application/cloudevents+json"),
        (b"\x0a\x03", "application/cloudevents", "application/cloudevents+json"),
        (b"[1]", "application/cloudevents+json", "the event"),
        (b"", "application/cloudevents+json", "the event"),
        (b'{"a', "application/cloudevents+json", "the event"),
    ],
)
def test_a_value_that_is_no_event_which_this_reads_is_undecodable_and_says_why(
    value: bytes, content_type: str, words: str
) -> None:
    with pytest.raises(Undecodable, match=words.replace("+", r"\+")):
        read(value, [("content-type", content_type.encode())])


@pytest.mark.parametrize("value", [None, b""])
def test_an_event_without_value_may_refer_to_its_data(value: bytes | None) -> None:
    whole = asked(value, typed("application/msgpack", dataref=URI, datasha256=SHA.upper(), databytes="7"))
    assert (whole.ref, whole.form, whole.id) == (DataRef(URI, SHA, 7), Form.MSGPACK, "e-1")
    least = asked(value, [("ce_dataref", URI.encode())])
    assert (least.ref, least.form, least.id) == (DataRef(URI), Form.JSON, "fallback")


def test_a_structured_event_may_refer_to_its_data() -> None:
    found = asked(structured(data=None, dataref=URI, databytes=7), STRUCTURED)
    assert (found.ref, found.form, found.inputs) == (DataRef(URI, "", 7), Form.JSON, {})


@pytest.mark.parametrize("form", Form)
def test_data_that_is_there_counts_and_a_reference_to_the_same_does_not(form: Form) -> None:
    found = asked(VALUES[form], binary(dataref=URI))
    assert found.ref is None
    assert is_asked(found, form)


@pytest.mark.parametrize(
    "wrong", [{"dataref": "file:///etc"}, {"datasha256": "12"}, {"databytes": "-1"}, {"databytes": "9" * 19}]
)
def test_a_reference_that_cannot_be_followed_is_refused(wrong: dict[str, str]) -> None:
    assert refusal(b"", binary(**{"dataref": URI, **wrong})).id == "e-1"


def test_a_structured_event_becomes_the_same_record_as_in_binary_mode() -> None:
    value = structured(datacontenttype="application/json", expirytime="2030-01-01T00:00:00Z")
    data, headers = as_binary(value, [*STRUCTURED, ("x", b"1")])
    assert json.loads(data) == json.loads(JSON)
    wanted = typed("application/json", expirytime="2030-01-01T00:00:00Z")
    assert sorted(headers) == sorted([*wanted, ("x", b"1")])
    assert as_binary(JSON, wanted) == (JSON, wanted)


def test_mutated_events_are_requests_refusals_or_undecodable() -> None:
    rng = random.Random(7)
    seeds = [structured(expirytime="2030-01-01T00:00:00Z", count=7), structured(data=None, data_base64="e30=")]
    for number in range(6000):
        value = bytearray(seeds[number % 2])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(value))
            value[at : at + rng.randint(0, 4)] = rng.choice(
                [b"", b'"', b"{", b"}", b"\\", b"\xff", b":", b",", b"null"]
            )
            value = value or bytearray(b"{")
        try:
            found = read(bytes(value), STRUCTURED)
        except Undecodable:
            continue
        assert isinstance(found, Request) or type(found.error) is InvalidRequest
        cause_of(bytes(value), STRUCTURED)
