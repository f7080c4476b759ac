"""A reply to a CloudEvent is an event of its own, the same however often it comes, and says which event caused it."""

import json
from typing import Any

import pytest

from producer_sdk.broker import Headers
from producer_sdk.cloudevents import NO_CAUSE, cause_of, reply_headers, retold
from producer_sdk.dataref import DataRef
from producer_sdk.wire import Form

NEEDED = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order"}
JSON = b'{"inputs": []}'
STRUCTURED = [("content-type", b"application/cloudevents+json")]
URI, SHA = "s3://bucket/key", "ab" * 32


def binary(**attributes: str) -> Headers:
    return [(f"ce_{name}", text.encode()) for name, text in {**NEEDED, **attributes}.items()]


def structured(**fields: Any) -> bytes:
    return json.dumps({**NEEDED, "data": json.loads(JSON), **fields}).encode()


def told(cause_value: bytes | None, headers: Headers, id: str = "e-1") -> dict[str, str]:
    cause = cause_of(cause_value, headers)
    written = reply_headers(cause, id, "/h/m", Form.JSON, is_error=False, at_s=1_700_000_000.25)
    return {name: content.decode() for name, content in written}


def test_a_reply_is_an_event_of_the_model_caused_by_the_request() -> None:
    assert told(JSON, binary(traceparent="00-a")) == {
        "ce_specversion": "1.0",
        "ce_type": "headrace.reply.v1",
        "ce_source": "/h/m",
        "ce_id": "/shop#e-1",
        "ce_time": "2023-11-14T22:13:20.250Z",
        "ce_correlationid": "e-1",
        "ce_causationid": "e-1",
        "content-type": "application/json",
        "ce_traceparent": "00-a",
    }


def test_both_modes_cause_the_same_reply() -> None:
    assert told(structured(correlationid="c"), [*STRUCTURED, ("tracestate", b"s")]) == told(
        JSON, [*binary(correlationid="c"), ("tracestate", b"s")]
    )


def test_events_of_two_sources_with_one_id_cause_two_events_and_one_that_comes_twice_the_same() -> None:
    ids = [told(JSON, binary(source=source))["ce_id"] for source in ("/shop", "/shop", "/bank")]
    assert ids[0] == ids[1] != ids[2]


def test_the_reply_to_a_record_that_is_no_event_is_known_by_its_request() -> None:
    assert told(JSON, [("traceparent", b"00-b")], "r-1").items() >= {
        ("ce_id", "r-1"),
        ("ce_causationid", "r-1"),
        ("ce_correlationid", "r-1"),
        ("traceparent", "00-b"),
    }


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, [("h", b"")] * 65),
        (b"[", STRUCTURED),
        (structured(Upper="x"), STRUCTURED),
        (None, [("ce_id", b"a"), ("ce_id", b"b")]),
        (None, [("ce_source", b"\xff")]),
    ],
)
def test_nothing_is_taken_up_of_a_record_that_cannot_be_read(value: bytes | None, headers: Headers) -> None:
    assert cause_of(value, headers) is NO_CAUSE


def test_an_event_is_told_again_as_an_error_or_as_a_pointer_and_other_headers_stay() -> None:
    event = reply_headers(NO_CAUSE, "r", "/h/m", Form.JSON, is_error=False, at_s=0)
    pointing = dict(retold(event, is_error=False, ref=DataRef(URI, SHA, 7)))
    assert [pointing[name] for name in ("ce_type", "ce_dataref", "ce_datasha256", "ce_databytes")] == [
        *(b"headrace.reply.v1", URI.encode(), SHA.encode(), b"7")
    ]
    failed = dict(retold(list(pointing.items()), is_error=True))
    assert failed == {**dict(event), "ce_type": b"headrace.error.v1"}
    assert retold([("a", b"b")], is_error=True, ref=DataRef(URI)) == [("a", b"b")]
