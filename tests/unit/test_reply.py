"""Each request gets its own rows, in its own form, or an error; nothing too large is ever written."""

from typing import Any

import msgspec
import numpy as np
import pytest

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import Outgoing, Record, TopicPartition
from producer_sdk.dead_letters import Facts, read_facts
from producer_sdk.errors import Code, HeadraceError, InferenceFailed, Internal, InvalidRequest, PayloadTooLarge
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Datatype, pack_bytes
from producer_sdk.topics import Lane, ReplyTo, Topics
from producer_sdk.wire import Form, Reply, Request
from workers.commit import PartitionLedger
from workers.reply import Scribe
from workers.retry import Span
from workers.retry_records import retry_record
from workers.work import OK, Answer, Batch, Block, Outcome, Part, Rejected, Source, Work

RECORD = ReadRecord("t", 0, 0, 0, None, b"", ())
LEDGER = PartitionLedger(TopicPartition("p.m.async", 3))
REPLIES = ReplyTo("p.replies", 1)
SCRIBE = Scribe(Topics("p"), "m", "2", max_record_bytes=10_000)


def work(
    id: str,
    rows: int = 1,
    *,
    expires: float | None = None,
    record: Record = RECORD,
    attempts: int = 0,
    fingerprint: bytes = b"",
    **fields: Any,
) -> Work:
    request = Request(id, {}, **({"reply_to": REPLIES} | fields))
    return Work(request, Source(LEDGER, 0), record, Lane.ASYNC, rows, 8 * rows, (), 99.0, expires, attempts, False,
                fingerprint)  # fmt: skip


def batch(*works: Work) -> Batch:
    return Batch.of(works)


def floats(rows: int, name: str = "y") -> Block:
    data = np.arange(2 * rows, dtype="<f4")
    return Block(name, Datatype.FP32, (2,), data.tobytes())


def answered(works: Batch, *parts: Part, scribe: Scribe = SCRIBE) -> list[Outcome]:
    span = Span(0, len(works.works))
    outcomes, failures = scribe.answered(works, span, Answer(parts, 0.0015), started=99.5, now=100.0)
    outcomes += [scribe.failed(failure.work, failure.error) for failure in failures]
    places = [work.request.id for work in works.works]
    return sorted(outcomes, key=lambda outcome: places.index(outcome.id))


def reply(outcome: Outcome) -> Reply:
    read = decode_reply_record(outcome.outgoing.value)
    assert isinstance(read, Reply), read
    return read


def error(outcome: Outcome) -> HeadraceError:
    read = decode_reply_record(outcome.outgoing.value)
    assert isinstance(read, HeadraceError)
    return read


def test_each_request_gets_exactly_its_own_rows_under_its_id() -> None:
    outcomes = answered(batch(work("a", 2), work("b"), work("c", 3)), Part(3, 6, (floats(6),)))
    assert [reply(each).outputs["y"].tolist() for each in outcomes] == [
        [[0, 1], [2, 3]],
        [[4, 5]],
        [[6, 7], [8, 9], [10, 11]],
    ]
    assert [(each.id, each.code, each.address, each.outgoing.key) for each in outcomes] == [
        (id, OK, REPLIES, id.encode()) for id in ("a", "b", "c")
    ]


def test_a_reply_says_model_version_rows_of_the_batch_and_times() -> None:
    read = reply(answered(batch(work("a"), work("b")), Part(2, 2, (floats(2),)))[0])
    assert (read.model, read.version) == ("m", "2")
    assert read.parameters == {"batch_rows": 2, "queue_ms": 500.0, "run_ms": 1.5}


def test_texts_of_any_length_are_cut_at_the_row_ends() -> None:
    rows = [pack_bytes([b"", b"long"]), pack_bytes([b"x" * 50, b""]), pack_bytes([b"1", b"2"])]
    ends = tuple(np.cumsum([len(row) for row in rows]).tolist())
    block = Block("y", Datatype.BYTES, (2,), b"".join(rows), ends)
    outcomes = answered(batch(work("a"), work("b", 2)), Part(2, 3, (block,)))
    assert reply(outcomes[0]).outputs["y"].tolist() == [[b"", b"long"]]
    assert reply(outcomes[1]).outputs["y"].tolist() == [[b"x" * 50, b""], [b"1", b"2"]]


def test_an_unbatched_output_goes_to_every_request_whole() -> None:
    block = Block("k", Datatype.INT32, (3,), np.array([7, 8, 9], "<i4").tobytes(), batched=False)
    outcomes = answered(batch(work("a"), work("b", 2)), Part(2, 3, (floats(3), block)))
    assert [reply(each).outputs["k"].tolist() for each in outcomes] == [[7, 8, 9]] * 2
    assert reply(outcomes[1]).outputs["y"].shape == (2, 2)


def test_only_the_outputs_asked_for_are_sent() -> None:
    works = batch(work("a", outputs=("z",)), work("b"))
    outcomes = answered(works, Part(2, 2, (floats(2), floats(2, "z"))))
    assert [list(reply(each).outputs) for each in outcomes] == [["z"], ["y", "z"]]


def test_a_json_request_is_answered_in_json() -> None:
    outcome = answered(batch(work("a", form=Form.JSON)), Part(1, 1, (floats(1),)))[0]
    body = msgspec.json.decode(outcome.outgoing.value or b"")
    assert (body["id"], body["model_name"], body["model_version"]) == ("a", "m", "2")
    assert body["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.0, 1.0]}]
    failed = SCRIBE.failed(work("a", form=Form.JSON), InferenceFailed("no"))
    assert msgspec.json.decode(failed.outgoing.value or b"") == {"id": "a", "error": "no", "code": "INFERENCE_FAILED"}


def test_rows_behind_a_failed_record_keep_their_place() -> None:
    parts = [Part(1, 1, (floats(1),)), Part(1, 0, error=InferenceFailed("row 0: no")), Part(2, 3, (floats(3),))]
    outcomes = {each.id: each for each in answered(batch(work("a"), work("b", 4), work("c"), work("d", 2)), *parts)}
    assert {id: each.code for id, each in outcomes.items() if each.code != OK} == {"b": Code.INFERENCE_FAILED}
    assert error(outcomes["b"]).message == "row 0: no"
    assert reply(outcomes["d"]).outputs["y"].tolist() == [[2, 3], [4, 5]]


def test_a_request_that_expired_while_the_model_ran_gets_no_result_and_its_neighbour_its_own() -> None:
    works = batch(work("late", expires=100.0), work("there", expires=100.1))
    outcomes = answered(works, Part(2, 2, (floats(2),)))
    assert [each.code for each in outcomes] == [Code.DEADLINE_EXCEEDED, OK]
    assert error(outcomes[0]).message == "the deadline passed while the model ran"
    assert reply(outcomes[1]).outputs["y"].tolist() == [[2, 3]]


def test_a_request_without_return_address_is_answered_on_the_results_topic() -> None:
    outcome = answered(batch(work("a", reply_to=None)), Part(1, 1, (floats(1),)))[0]
    assert outcome.address == ReplyTo("p.m.results", None)


@pytest.mark.parametrize("form", list(Form))
def test_a_reply_that_no_record_can_hold_is_a_typed_error_and_its_neighbour_is_answered(form: Form) -> None:
    small = Scribe(Topics("p"), "m", "2", max_record_bytes=2000)
    outcomes = answered(batch(work("a", 400, form=form), work("b")), Part(2, 401, (floats(401),)), scribe=small)
    assert [each.code for each in outcomes] == [Code.PAYLOAD_TOO_LARGE, OK]
    assert "the 1488 that a record may hold: ask for fewer rows" in error(outcomes[0]).message
    assert len(outcomes[0].outgoing.value or b"") < 1488


@pytest.mark.parametrize("parts", [[], [Part(1, 1, (floats(1),))], [Part(3, 3, (floats(3),))]])
def test_an_answer_that_does_not_cover_the_records_is_given_to_nobody(parts: list[Part]) -> None:
    with pytest.raises(Internal, match="of 2 records"):
        answered(batch(work("a"), work("b")), *parts)


def record(value: bytes | None = b"", key: bytes | None = None, headers: Any = (), topic: str = "p.m.async") -> Record:
    return ReadRecord(topic, 3, 7, 123, key, value, headers)


def rejected(error: HeadraceError, record: Record = RECORD, **fields: Any) -> Rejected:
    return Rejected("a", error, Source(LEDGER, 7), Lane.BULK, 99.0, record=record, **fields)


def unreadable(error: HeadraceError, record: Record = RECORD) -> Rejected:
    return rejected(error, record, dead=Outgoing(record.key, record.value, record.headers, record.timestamp))


def test_a_rejection_goes_to_the_return_address_else_to_the_results_topic() -> None:
    told = SCRIBE.rejected(rejected(InvalidRequest("no"), reply_to=REPLIES))
    assert (told.address, told.code, error(told).message, error(told).id) == (REPLIES, "INVALID_REQUEST", "no", "a")
    assert SCRIBE.rejected(rejected(InvalidRequest("no"))).address == ReplyTo("p.m.results", None)


def test_a_dead_letter_keeps_key_bytes_and_headers_and_adds_its_facts_once() -> None:
    headers = [("a", b"b"), ("headrace-dead-code", b"OLD"), ("a", b"c")]
    letter = SCRIBE.rejected(unreadable(InvalidRequest("bad"), record(b"\xc1", b"k", headers)))
    assert (letter.address, letter.evidence) == (ReplyTo("p.m.dead", None), None)
    assert letter.outgoing[:2] == (b"k", b"\xc1")
    facts = {"topic": "p.m.async", "partition": "3", "offset": "7", "timestamp": "123", "group": "p.m"}
    facts |= {"attempts": "0", "code": "INVALID_REQUEST", "message": "bad"}
    ours = [(f"headrace-dead-{name}", text.encode()) for name, text in facts.items()]
    assert letter.outgoing.headers == [("a", b"b"), ("a", b"c"), *ours]


@pytest.mark.parametrize("code", ["RUNNER_CRASHED", "OUT_OF_MEMORY", "INTERNAL"])
def test_an_error_that_the_caller_is_not_to_blame_for_leaves_the_whole_record_beside_its_reply(code: str) -> None:
    failing = work("a", attempts=5, record=record(b"bytes", b"k", [("a", b"b")]))
    outcome = SCRIBE.failed(failing, HeadraceError.from_code(code, "why"))
    assert (outcome.address, error(outcome).code) == (REPLIES, code)
    evidence = outcome.evidence
    assert evidence is not None
    assert (*evidence[:2], evidence.headers[0]) == (b"k", b"bytes", ("a", b"b"))
    assert read_facts(evidence.headers) == Facts("p.m.async", 3, 7, 123, "p.m", 5, code, "why")


def test_other_errors_leave_nothing_and_a_model_chooses_which_do() -> None:
    failed, bad = InferenceFailed("no"), InvalidRequest("bad")
    assert [SCRIBE.failed(work("a"), failed).evidence, SCRIBE.rejected(rejected(bad)).evidence] == [None, None]
    chosen = Scribe(Topics("p"), "m", "2", 10_000, ("INFERENCE_FAILED", "INVALID_REQUEST"))
    kept = [chosen.failed(work("a"), failed).evidence, chosen.rejected(rejected(bad, record(b"bytes"))).evidence]
    assert [each and each.value for each in kept] == [b"", b"bytes"]
    assert chosen.failed(work("a"), Internal("bug")).evidence is None


def test_a_first_attempt_that_failed_for_good_counts_as_one_and_a_record_that_never_ran_as_none() -> None:
    letters = SCRIBE.failed(work("a"), Internal("bug")).evidence, SCRIBE.rejected(rejected(Internal("bug"))).evidence
    facts = [read_facts(letter.headers) for letter in letters if letter]
    assert [each and each.attempts for each in facts] == [1, 0]


def test_a_record_of_the_retry_topic_is_told_by_where_it_was_published_first() -> None:
    first = work("a", attempts=2, record=record(b"bytes", b"k", [("a", b"b")], "p.m.bulk"))
    again = retry_record(first, due_ms=5000)
    letter = SCRIBE.failed(
        work("a", attempts=3, record=ReadRecord("p.m.retry", 0, 99, 4000, again.key, again.value, again.headers)),
        Internal("why"),
    ).evidence
    assert letter is not None
    assert read_facts(letter.headers) == Facts("p.m.bulk", 3, 7, 123, "p.m", 3, "INTERNAL", "why")
    assert [name for name, _ in letter.headers if not name.startswith("headrace-dead-")] == ["a"]


def test_a_result_carries_the_fingerprint_of_its_request_and_an_error_none() -> None:
    known = work("a", fingerprint=b"f")
    assert answered(batch(known), Part(1, 1, (floats(1),)))[0].fingerprint == b"f"
    assert SCRIBE.failed(known, InferenceFailed("no")).fingerprint == b""


def test_any_text_of_an_error_can_be_written() -> None:
    strange = InvalidRequest("half a pair \ud800")
    assert error(SCRIBE.failed(work("a"), strange)).message == "half a pair ?"
    letter = SCRIBE.rejected(unreadable(strange))
    assert dict(letter.outgoing.headers)["headrace-dead-message"] == b"half a pair ?"


def test_what_cannot_be_sent_is_replaced_by_an_error_reply_here_or_on_the_results_topic() -> None:
    outcome = answered(batch(work("a")), Part(1, 1, (floats(1),)))[0]
    here = SCRIBE.instead(outcome, PayloadTooLarge("too large"))
    elsewhere = SCRIBE.instead(outcome, InvalidRequest("nowhere"), elsewhere=True)
    assert (here.address, error(here).message, here.source) == (REPLIES, "too large", outcome.source)
    assert (elsewhere.address, error(elsewhere).message) == (ReplyTo("p.m.results", None), "nowhere")
    assert (here.code, elsewhere.code) == (Code.PAYLOAD_TOO_LARGE, Code.INVALID_REQUEST)


def test_a_dead_letter_that_is_too_large_keeps_its_facts_and_its_first_bytes() -> None:
    original = record(b"\xc1" * 5000, b"k" * 5000, [("large", b"h" * 5000)])
    letter = SCRIBE.rejected(unreadable(InvalidRequest("bad"), original))
    shortened = SCRIBE.instead(letter, PayloadTooLarge("no")).outgoing
    headers = dict(shortened.headers)
    assert (shortened.key, shortened.value) == (None, b"\xc1" * 1024)
    assert headers["headrace-dead-cut-from-bytes"] == b"5000"
    assert (headers["headrace-dead-offset"], "large" in headers) == (b"7", False)
