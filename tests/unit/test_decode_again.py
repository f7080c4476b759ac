"""Decoding where time and place are not the record's own: retried records, other clocks, cancelled requests."""

import json
from typing import Any

import numpy as np
import pytest
from decode_rig import NOW, REPLIES, SOURCE, ARecord, accepted, decoder, json_record, read, refused, rows
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import Code, RunnerCrashed
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import Form, Refused, Request, encode_request
from workers.clock_skew import skew_s
from workers.decode import Decoder, Now
from workers.retry_records import retry_record
from workers.work import Referred, Rejected, Source, Work


def a_request(id: str = "a", **fields: Any) -> bytes:
    return encode_request(Request(id, {"x": Tensor.from_array(rows())}, reply_to=REPLIES, **fields))


def again(first: Work, due_ms: int = NOW.epoch_ms, timestamp: int = NOW.epoch_ms) -> ARecord:
    """The record of the retry topic that a first attempt led to."""
    outgoing = retry_record(first, due_ms)
    return ARecord(outgoing.value, timestamp, outgoing.headers, outgoing.key, "p.m.retry", 1, 99)


def read_again(record: ARecord, now: Now = NOW, by: Decoder | None = None) -> Work | Rejected:
    works, others, _ = (by or decoder()).decode([record], 0, SOURCE.ledger, Lane.ASYNC, now)
    (item,) = [*works, *others]
    assert not isinstance(item, Referred)
    return item


@pytest.mark.parametrize("lane", list(Lane))
def test_a_retried_request_keeps_its_id_its_lane_and_its_attempts(lane: Lane) -> None:
    work = accepted(read(json_record(NOW.epoch_ms)._replace(topic=f"p.m.{lane}")))
    work.attempts = 3
    for _ in range(2):
        work = accepted(read_again(again(work)))
    assert (work.request.id, work.lane, work.attempts) == (f"p.m.{lane}:3:7", lane, 3)
    assert (work.source, work.request.form) == (Source(SOURCE.ledger, 99), Form.JSON)


def test_its_relative_deadline_counts_from_the_first_record() -> None:
    first = accepted(read(json_record(NOW.epoch_ms - 400, deadline_s=1.0)))
    assert accepted(read_again(again(first))).expires == 100.6
    late = Now(monotonic=200.0, epoch_ms=NOW.epoch_ms + 700)
    assert refused(read_again(again(first, timestamp=late.epoch_ms), late)).error.code == Code.DEADLINE_EXCEEDED


def test_its_own_headers_still_count_and_ours_take_none_of_their_room() -> None:
    headers = [("ce_id", b"event"), *((f"h{n}", b"") for n in range(63))]
    first = accepted(read(json_record(NOW.epoch_ms)._replace(headers=headers)))
    assert accepted(read_again(again(first))).request.id == "event"


def test_what_another_hand_put_on_the_retry_topic_is_a_request_of_the_lane_async() -> None:
    foreign = json_record(NOW.epoch_ms)._replace(topic="p.m.retry", headers=[("headrace-retry-topic", b"p.m.bulk")])
    work = accepted(read_again(foreign))
    assert (work.request.id, work.lane, work.attempts) == ("p.m.retry:3:7", Lane.ASYNC, 0)


def test_a_retried_record_that_a_newer_reader_took_is_refused_under_its_first_id() -> None:
    first = accepted(read(json_record(NOW.epoch_ms)))
    assert refused(read_again(again(first)._replace(value=b"\xc1"))).id == "p.m.async:3:7"


def test_a_rejection_keeps_the_record_for_its_dead_letter() -> None:
    for record in (ARecord(a_request(version="9")), ARecord(b"\xc1"), ARecord(a_request()[:-1]), json_record(0)):
        assert refused(read(record, decoder(default_deadline_s=0.001))).record is record


@pytest.mark.parametrize("topic", ["p.replies", "other.replies"])
def test_a_record_that_must_not_be_read_here_is_answered_where_it_may_be(topic: str) -> None:
    error, reply_to = RunnerCrashed("it ended two workers"), ReplyTo(topic, 1)
    record = again(accepted(read(json_record(NOW.epoch_ms)._replace(topic="p.m.bulk"))))
    refusal = Refused("a", error, Form.JSON, reply_to)
    given_up = decoder().given_up(record, SOURCE.ledger, refusal, error, Lane.ASYNC, 5.0)
    assert (given_up.id, given_up.error, given_up.form, given_up.lane) == ("a", error, Form.JSON, Lane.BULK)
    assert given_up.reply_to == (reply_to if topic == "p.replies" else None)
    assert (given_up.source, given_up.record, given_up.dead) == (Source(SOURCE.ledger, 99), record, None)


def test_a_record_that_must_not_be_read_here_is_a_dead_letter_where_nobody_can_be_told() -> None:
    record = ARecord(b"evil", headers=[("a", b"b")])
    given_up = decoder().given_up(record, SOURCE.ledger, None, RunnerCrashed("it"), Lane.ASYNC, 5.0)
    assert (given_up.id, given_up.dead) == ("p.m.async:3:7", (b"key", b"evil", [("a", b"b")], NOW.epoch_ms))


def test_a_deadline_counts_as_passed_later_by_the_allowance_and_says_how_late_it_really_is() -> None:
    lenient = decoder(clock_skew_allowance_s=0.25)
    assert accepted(read(ARecord(a_request(deadline_ms=NOW.epoch_ms + 1000)), lenient)).expires == 101.25
    assert accepted(read(ARecord(a_request(deadline_ms=NOW.epoch_ms - 249)), lenient)).expires == pytest.approx(100.001)
    rejected = refused(read(ARecord(a_request(deadline_ms=NOW.epoch_ms - 250)), lenient))
    assert rejected.error.message == "the deadline had passed 0.250 s before the request was read"


@given(st.integers(-1, 2 * NOW.epoch_ms), st.floats(0.001, 100), st.booleans())
def test_no_clock_of_a_producer_makes_a_relative_deadline_longer_than_it_says(
    timestamp: int, deadline_s: float, by_default: bool
) -> None:
    record = json_record(timestamp) if by_default else json_record(timestamp, deadline_s=deadline_s)
    work = read(record, decoder(default_deadline_s=deadline_s if by_default else None))
    if isinstance(work, Work):
        assert work.expires is not None
        assert work.expires <= NOW.monotonic + deadline_s + 0.001  # milliseconds are whole


def test_a_producers_clock_that_runs_ahead_leaves_a_relative_deadline_whole() -> None:
    assert accepted(read(json_record(NOW.epoch_ms + 60_000, deadline_s=1.0))).expires == 101.0


def test_the_skew_is_how_far_a_timestamp_lies_ahead() -> None:
    assert (skew_s(NOW.epoch_ms + 1500, NOW.epoch_ms), skew_s(NOW.epoch_ms - 1500, NOW.epoch_ms)) == (1.5, 0.0)
    assert skew_s(-1, NOW.epoch_ms) == 0.0


class Cancelled:
    """Cancels of these ids, sent at this time; `asked` counts the look-ups."""

    def __init__(self, *ids: str, at_ms: int = NOW.epoch_ms) -> None:
        self.ids, self.at_ms, self.asked = ids, at_ms, 0

    def __len__(self) -> int:
        return len(self.ids)

    def covers(self, id: str, published_ms: int) -> bool:
        self.asked += 1
        return id in self.ids and published_ms <= self.at_ms


def test_a_cancelled_request_is_refused_at_its_return_address_and_no_other() -> None:
    by = decoder(cancels=Cancelled("gone"))
    rejected = refused(read(ARecord(a_request("gone")), by))
    assert (rejected.id, rejected.error.code, rejected.reply_to) == ("gone", Code.CANCELLED, REPLIES)
    assert accepted(read(ARecord(a_request("there")), by)).request.id == "there"
    assert accepted(read(ARecord(a_request("gone"), NOW.epoch_ms + 1), by)).request.id == "gone"


def test_a_cancelled_request_that_waits_for_a_retry_is_looked_up_by_its_first_place_and_time() -> None:
    first = accepted(read(json_record(NOW.epoch_ms - 500)))
    by = decoder(cancels=Cancelled("p.m.async:3:7", at_ms=NOW.epoch_ms - 200))
    assert refused(read_again(again(first), by=by)).error.code == Code.CANCELLED


def test_a_return_address_that_is_not_allowed_is_not_used_for_a_cancelled_request_either() -> None:
    body = json.loads(json_record(0, reply_to="other.replies").value or b"")
    record = ARecord(json.dumps(body | {"id": "gone"}).encode())
    assert refused(read(record, decoder(cancels=Cancelled("gone")))).reply_to is None


def test_nothing_is_looked_up_while_nothing_is_cancelled() -> None:
    nothing = Cancelled()
    accepted(read(ARecord(a_request()), decoder(cancels=nothing)))
    assert nothing.asked == 0


def test_rows_survive_a_retry_bit_for_bit() -> None:
    sent = np.array([[1.5, np.nan]], np.float32)
    first = accepted(read(ARecord(encode_request(Request("a", {"x": Tensor.from_array(sent)})))))
    tensor = accepted(read_again(again(first))).request.inputs["x"]
    assert bytes(tensor.data) == sent.tobytes()
