"""Who asks by an event is answered by one, who wants every reply as one gets them, and all others get no headers."""

import numpy as np
import pytest

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import Headers, Outgoing, TopicPartition
from producer_sdk.errors import DeadlineExceeded, HeadraceError, InvalidRequest, PayloadTooLarge
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Form, Request
from workers.commit import PartitionLedger
from workers.reply import Scribe
from workers.retry import Span
from workers.retry_records import retry_record
from workers.work import Answer, Batch, Block, Outcome, Part, Rejected, Source, Work

EVENT: Headers = [("ce_specversion", b"1.0"), ("ce_id", b"e"), ("ce_source", b"/s"), ("ce_type", b"t")]
LEDGER = PartitionLedger(TopicPartition("p.m.async", 3))
SCRIBE = Scribe(Topics("p"), "m", "2", max_record_bytes=10_000)
EVENTFUL = Scribe(Topics("p"), "m", "2", max_record_bytes=10_000, as_events=True)


def work(headers: Headers = (), form: Form = Form.MSGPACK, topic: str = "p.m.async") -> Work:
    record = ReadRecord(topic, 3, 0, 0, None, b"{}", headers)
    return Work(Request("r", {}, form), Source(LEDGER, 0), record, Lane.ASYNC, 1, 8, (), 99.0, None)


def result(scribe: Scribe, asked: Work, nbytes: int = 8) -> Outcome:
    block = Block("y", Datatype.UINT8, (nbytes,), np.zeros(nbytes, np.uint8).tobytes())
    answer = Answer((Part(1, 1, (block,)),), 0.001)
    return scribe.answered(Batch.of([asked]), Span(0, 1), answer, 99.5, 100.0)[0][0]


def told(outcome: Outcome) -> dict[str, str]:
    return {name: content.decode() for name, content in outcome.outgoing.headers}


@pytest.mark.parametrize(
    "headers", [(), [("ce_id", b"e")], [("traceparent", b"00")], [("content-type", b"text/plain")]]
)
def test_the_reply_to_a_record_that_is_no_event_has_no_headers(headers: Headers) -> None:
    assert result(SCRIBE, work(headers)).outgoing.headers == ()
    assert SCRIBE.failed(work(headers), InvalidRequest("no")).outgoing.headers == ()


@pytest.mark.parametrize(
    ("form", "content_type"), [(Form.JSON, "application/json"), (Form.MSGPACK, "application/vnd.msgpack")]
)
def test_the_reply_to_an_event_is_an_event_under_the_same_key(form: Form, content_type: str) -> None:
    for outcome, kind in (
        (result(SCRIBE, work(EVENT, form)), "headrace.reply.v1"),
        (SCRIBE.failed(work(EVENT, form), DeadlineExceeded()), "headrace.error.v1"),
        (SCRIBE.remembered(work(EVENT, form), b"{}"), "headrace.reply.v1"),
    ):
        known = told(outcome)
        assert (known["ce_id"], known["ce_source"], known["ce_type"]) == ("/s#e", "/p/m", kind)
        assert (known["content-type"], outcome.outgoing.key) == (content_type, b"r")


def test_a_model_may_want_every_reply_as_an_event() -> None:
    known = told(result(EVENTFUL, work()))
    assert (known["ce_id"], known["ce_causationid"], known["ce_type"]) == ("r", "r", "headrace.reply.v1")


def test_the_refusal_of_an_event_is_an_event() -> None:
    record = ReadRecord("p.m.async", 3, 0, 0, None, b"{}", [pair for pair in EVENT if pair[0] != "ce_type"])
    rejected = Rejected("r", InvalidRequest("no"), Source(LEDGER, 0), Lane.ASYNC, 99.0, record=record)
    assert told(SCRIBE.rejected(rejected))["ce_type"] == "headrace.error.v1"


def test_a_dead_letter_keeps_the_headers_of_the_event_and_is_no_reply() -> None:
    record = ReadRecord("p.m.async", 3, 0, 0, b"k", b"\xc1", EVENT)
    rejected = Rejected(
        "r", InvalidRequest("no"), Source(LEDGER, 0), Lane.ASYNC, 99.0, dead=Outgoing(None, b""), record=record
    )
    outcome = EVENTFUL.rejected(rejected)
    assert told(outcome).items() >= {(name, content.decode()) for name, content in EVENT}
    assert SCRIBE.instead(outcome, InvalidRequest("no"), elsewhere=True).outgoing.headers == ()


def test_an_event_that_was_on_the_retry_topic_is_answered_as_it_was_asked() -> None:
    crowded = [*EVENT, *((f"h{n}", b"") for n in range(60))]
    moved = retry_record(work(crowded), due_ms=1)
    assert told(result(SCRIBE, work(moved.headers, topic="p.m.retry")))["ce_id"] == "/s#e"


def test_headers_count_towards_the_largest_record() -> None:
    long = [(name, b"/" * 3000 if name == "ce_source" else content) for name, content in EVENT]
    assert result(SCRIBE, work(EVENT), 8000).code == "OK"
    outcome = result(SCRIBE, work(long), 8000)
    assert outcome.code == "PAYLOAD_TOO_LARGE"
    assert told(outcome)["ce_type"] == "headrace.error.v1"


def test_an_error_in_place_of_a_reply_that_cannot_be_sent_is_an_event_of_the_same_id() -> None:
    sent = result(SCRIBE, work(EVENT))
    other = SCRIBE.instead(sent, PayloadTooLarge("too large"))
    assert told(other) == {**told(sent), "ce_type": "headrace.error.v1"}
    assert isinstance(decode_reply_record(other.outgoing.value), HeadraceError)
