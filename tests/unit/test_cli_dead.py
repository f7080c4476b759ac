"""Which dead letters a person means, whether they can go again, and as what."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from made_letters import INPUTS, NOW_MS, PACKED, REQUEST, letter

from headrace.dead_filter import parse_place, parse_where
from headrace.dead_judge import Going, Reason, Skipped, Wishes, judge
from headrace.dead_reader import Letter, Redriven
from headrace.dead_rewrite import with_version, without_deadline
from headrace.failure import UsageError
from producer_sdk._read_record import ReadRecord
from producer_sdk.oip import encode_json_request
from producer_sdk.oip_protobuf import CODEC
from producer_sdk.records import decode_record
from producer_sdk.topics import Topics
from producer_sdk.wire import Form, Request, encode_request

LANES = Topics("p").lanes("m")
JSON = encode_json_request(msgspec.structs.replace(REQUEST, form=Form.JSON), deadline_s=5.0)
TENSOR = b'{"name":"x","shape":[1],"datatype":"FP64","data":[0.10000000000000000555]}'
UNUSUAL = b'{"inputs":[' + TENSOR + b'],"id":"a-1","later":1e400}'


def verdict(of: Letter, *, redriven: bool = False, now_ms: int = NOW_MS, **wishes: Any) -> Going | Skipped:
    return judge(of, "p.m.dead", LANES, Wishes(**wishes), redriven=redriven, now_ms=now_ms)


def going(of: Letter, **more: Any) -> Going:
    found = verdict(of, **more)
    assert isinstance(found, Going), found
    return found


def reason(of: Letter, **more: Any) -> Reason:
    found = verdict(of, **more)
    assert isinstance(found, Skipped)
    return found.reason


def wanted(of: Letter, *conditions: str) -> bool:
    return parse_where(conditions, NOW_MS / 1000).wants(of)


def test_conditions_on_one_key_are_alternatives_and_those_on_different_keys_must_all_hold() -> None:
    assert wanted(letter(), "code=internal", "code=OUT_OF_MEMORY", "topic=async", "partition=1", "id=a-1")
    assert not wanted(letter(), "code=INTERNAL", "partition=0")
    assert [wanted(letter(), each) for each in ("id=b", "topic=bulk", "topic=p.m.async", "code=OK")] == [
        False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("after=2h", True), ("after=30m", False), ("before=30m", True), ("before=2h", False),
     ("after=2026-05-28T19:20Z", True), ("after=2026-05-28T19:30:00+00:00", False)],
)  # fmt: skip
def test_times_are_when_the_record_became_a_letter_absolute_or_ago(condition: str, holds: bool) -> None:
    an_hour_ago = NOW_MS - 3_600_000
    assert datetime.fromtimestamp(an_hour_ago / 1000, UTC).isoformat() == "2026-05-28T19:26:40+00:00"
    assert wanted(letter(at=(0, 17, an_hour_ago)), condition) is holds


@pytest.mark.parametrize("condition", ["code", "code=", "colour=red", "after=yesterday", "=x"])
def test_a_condition_that_is_none_is_refused_with_what_it_may_be(condition: str) -> None:
    with pytest.raises(UsageError, match="write"):
        parse_where([condition], 0.0)


def test_a_place_is_two_numbers() -> None:
    assert [parse_place(text) for text in ("0:17", "p.m.async:0:17", "17", "a:b")] == [(0, 17), None, None, None]


def test_a_letter_goes_back_byte_for_byte_with_its_headers_and_two_marks() -> None:
    found = going(letter(original=[("a", b"b"), ("a", b"\xff")]))
    assert found.origin == ("p.m.async", 1)
    assert found.outgoing == (
        b"k",
        PACKED,
        [("a", b"b"), ("a", b"\xff"), ("headrace-redriven", b"p.m.dead:0:17"), ("headrace-redrives", b"1")],
        None,
    )


@pytest.mark.parametrize(
    "value", [encode_request(Request("x", INPUTS)).replace(b"\xa1x", b"\xc0", 1), b'{"inputs": []}']
)
def test_a_request_without_an_id_keeps_the_one_that_its_caller_was_told(value: bytes) -> None:
    found = going(letter(value))
    assert found.outgoing.value == value
    read = decode_record(found.outgoing.value, found.outgoing.headers, "p.m.async:1:99", NOW_MS)
    assert read.id == "p.m.async:1:5"


def test_marks_are_left_out_where_a_record_may_have_no_more_headers() -> None:
    full = [(f"h{n}", b"") for n in range(64)]
    assert going(letter(original=full)).outgoing.headers == full
    nameless = letter(b'{"inputs": []}', full)
    assert reason(nameless) is Reason.UNCHANGEABLE


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (letter(b"\xc1junk"), Reason.UNREADABLE),
        (letter(None), Reason.UNREADABLE),
        (letter(PACKED[:-1]), Reason.UNREADABLE),
        (letter(b'{"id": "a", "inputs": 5}'), Reason.REFUSED),
        (letter(cut_from_bytes=5000), Reason.SHORTENED),
        (letter(topic="p.control"), Reason.FOREIGN_ORIGIN),
        (letter(topic="p.other.async"), Reason.FOREIGN_ORIGIN),
        (Letter(ReadRecord("p.m.dead", 0, 0, 0, None, PACKED, ())), Reason.NO_LETTER),
    ],
)
def test_a_letter_that_would_die_again_or_belongs_elsewhere_stays(of: Letter, why: Reason) -> None:
    assert reason(of) is why


def test_one_that_was_re_driven_stays_unless_wanted_again() -> None:
    assert reason(letter(), redriven=True) is Reason.REDRIVEN
    assert going(letter(), redriven=True, again=True).outgoing.value == PACKED


@pytest.mark.parametrize(
    ("value", "original"),
    [(PACKED, ()), (encode_request(Request("a-1", INPUTS)), [("ce_expirytime", b"2026-05-28T20:26:41Z")])],
)
def test_an_expired_letter_stays_or_goes_without_its_deadline(value: bytes, original: Any) -> None:
    late = NOW_MS + 60_000
    assert reason(letter(value, original), now_ms=late) is Reason.EXPIRED
    sent = going(letter(value, original), now_ms=late, drop_deadline=True).outgoing
    read = decode_record(sent.value, sent.headers, "", late)
    assert isinstance(read, Request)
    assert (read.id, read.deadline_ms, read.inputs["x"].data) == ("a-1", None, INPUTS["x"].data)


def test_a_deadline_that_counts_from_the_record_counts_anew() -> None:
    late = NOW_MS + 60_000
    assert going(letter(JSON), now_ms=late).outgoing.value == JSON


@pytest.mark.parametrize("value", [PACKED, JSON, b"\xef\xbb\xbf" + JSON, UNUSUAL])
def test_another_version_replaces_that_field_alone(value: bytes) -> None:
    sent = going(letter(value), to_version="7 b").outgoing
    before, after = (decode_record(each, (), "", NOW_MS) for each in (value, sent.value))
    assert isinstance(before, Request)
    assert isinstance(after, Request)
    assert after.version == "7 b"
    assert msgspec.structs.replace(after, version=before.version) == before


def test_a_request_of_a_codec_is_written_anew() -> None:
    value = CODEC.encode_request(Request("a-1", INPUTS, version="1"), deadline_s=20)
    of = letter(value, [("content-type", b"application/x-protobuf")])
    assert going(of).outgoing.value == value
    sent = going(of, to_version="7 b").outgoing
    after = decode_record(sent.value, sent.headers, "", NOW_MS)
    assert isinstance(after, Request)
    assert (after.id, after.version, after.deadline_ms) == ("a-1", "7 b", NOW_MS + 20_000)
    assert after.inputs == INPUTS


def test_a_structured_event_is_changed_inside_and_goes_back_in_binary_mode() -> None:
    body = {"specversion": "1.0", "id": "e", "source": "/s", "type": "t", "expirytime": "2020-01-01T00:00:00Z"}
    value = msgspec.json.encode({**body, "data": msgspec.Raw(JSON)})
    of = letter(value, [("content-type", b"application/cloudevents+json")])
    sent = going(of, to_version="7", drop_deadline=True).outgoing
    after = decode_record(sent.value, sent.headers, "", NOW_MS)
    assert isinstance(after, Request)
    assert (after.version, after.deadline_ms) == ("7", None)
    assert ("ce_source", b"/s") in sent.headers


def test_a_letter_whose_request_is_stored_elsewhere_goes_back_as_it_is_or_stays() -> None:
    of = letter(None, [("ce_dataref", b"s3://bucket/key")])
    assert going(of).outgoing.headers[0] == ("ce_dataref", b"s3://bucket/key")
    assert reason(of, to_version="7") is Reason.UNCHANGEABLE


def test_a_short_envelope_is_made_as_long_as_the_version_needs() -> None:
    value = msgspec.msgpack.encode([1, "a"])
    assert msgspec.msgpack.decode(with_version(value, Form.MSGPACK, "2")) == [1, "a", None, None, None, "2"]
    assert msgspec.msgpack.decode(without_deadline(value, Form.MSGPACK)) == [1, "a", None]


def test_bodies_lose_their_deadline_alone() -> None:
    left = msgspec.json.decode(without_deadline(JSON, Form.JSON))
    assert "deadline_s" not in left["parameters"]
    assert left["parameters"]["version"] == "1"


def test_ranges_of_notes_are_merged_in_any_order() -> None:
    redriven = Redriven()
    for start, end in ((5, 7), (1, 2), (9, 10), (2, 5), (6, 8)):
        redriven.add(start, end)
    assert [offset for offset in range(12) if offset in redriven] == [1, 2, 3, 4, 5, 6, 7, 9]
    assert redriven._starts == [1, 9]


def test_codes_that_this_version_does_not_know_are_found() -> None:
    assert parse_where(["code=internal", "code=INTERNL", "id=INTERN"], 0.0).foreign_codes() == {"INTERNL"}
