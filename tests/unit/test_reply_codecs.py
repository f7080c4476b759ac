"""The reply to a codec's request is in that codec, with its content type, whatever becomes of the request."""

from typing import Any

import msgspec
import numpy as np
import pytest

from headrace.dead_rewrite import written_anew
from headrace.verify_records import Answer as ReadAnswer
from headrace.verify_records import read_answer
from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.errors import DeadlineExceeded, HeadraceError, InvalidRequest, PayloadTooLarge
from producer_sdk.oip_protobuf import CODEC
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.stored_replies import read_stored
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, ReplyTo, Topics
from producer_sdk.wire import Reply, Request
from workers import reply_index
from workers.commit import PartitionLedger
from workers.pointer import pointer, unstored
from workers.reply import Scribe
from workers.reply_index import Stored
from workers.retry import Span
from workers.retry_records import origin_of, retry_record
from workers.return_address import read_return_address
from workers.store_rule import StoreRule
from workers.work import Answer, Batch, Block, Outcome, Part, Rejected, Source, Work

TYPE = [("content-type", b"application/x-protobuf")]
LEDGER = PartitionLedger(TopicPartition("p.m.async", 3))
SCRIBE = Scribe(Topics("p"), "m", "2", max_record_bytes=10_000, dead_letter_codes={"INTERNAL"})
STORING = Scribe(Topics("p"), "m", "2", max_record_bytes=10_000, store_rule=StoreRule(True, 5_000, None))
REF = DataRef("s3://claims/x", "0" * 64, 20)
INPUTS = {"x": Tensor.from_array(np.ones((1, 2), np.float32))}


def work(**fields: Any) -> Work:
    request = Request("r", INPUTS, CODEC, **fields)
    record = ReadRecord("p.m.async", 3, 5, 7000, b"k", CODEC.encode_request(request, deadline_s=9.0), TYPE)
    return Work(request, Source(LEDGER, 0), record, Lane.ASYNC, 1, 8, (), 99.0, None)


def result(scribe: Scribe, asked: Work, nbytes: int = 8) -> Outcome:
    block = Block("y", Datatype.UINT8, (nbytes,), np.zeros(nbytes, np.uint8).tobytes())
    answer = Answer((Part(1, 1, (block,)),), 0.001)
    return scribe.answered(Batch.of([asked]), Span(0, 1), answer, 99.5, 100.0)[0][0]


def told(outcome: Outcome) -> Reply | HeadraceError:
    assert list(outcome.outgoing.headers) == TYPE
    return decode_reply_record(outcome.outgoing.value, outcome.outgoing.headers)


def test_a_result_and_an_error_are_in_the_codec() -> None:
    good = told(result(SCRIBE, work()))
    assert isinstance(good, Reply)
    assert (good.outputs["y"].shape, good.parameters["batch_rows"]) == ((1, 8), 1)
    assert isinstance(told(SCRIBE.failed(work(), DeadlineExceeded("late"))), DeadlineExceeded)
    assert isinstance(told(result(SCRIBE, work(), 20_000)), PayloadTooLarge)


def test_a_rejection_and_what_is_sent_instead_are_in_the_codec() -> None:
    asked = work()
    rejected = Rejected("r", InvalidRequest("no"), Source(LEDGER, 0), Lane.ASYNC, 99.0, CODEC, record=asked.record)
    outcome = SCRIBE.rejected(rejected)
    assert isinstance(told(outcome), InvalidRequest)
    assert isinstance(told(SCRIBE.instead(outcome, PayloadTooLarge("large"))), PayloadTooLarge)
    letter = SCRIBE.letter_of(SCRIBE.failed(asked, HeadraceError("broken")))
    assert told(SCRIBE.instead(letter, InvalidRequest("no"), elsewhere=True)).id == "r"


def test_a_dead_letter_and_a_retry_keep_the_bytes_and_the_content_type() -> None:
    asked = work()
    letter = SCRIBE.letter_of(SCRIBE.failed(asked, HeadraceError("broken"))).outgoing
    assert (letter.value, dict(letter.headers)["content-type"]) == (asked.record.value, b"application/x-protobuf")
    moved = retry_record(asked, 9000)
    again = origin_of(ReadRecord("p.m.retry", 0, 1, 8000, moved.key, moved.value, moved.headers))
    read = decode_record(moved.value, again.headers, "f", again.timestamp_ms)
    assert isinstance(read, Request)
    assert (read.form, read.deadline_ms) == (CODEC, 16_000)


def test_a_stored_result_has_the_codecs_suffix_and_is_pointed_to_in_the_codec() -> None:
    outcome = result(STORING, work(store=S3Prefix("results", "out/")))
    assert outcome.storing is not None
    assert str(outcome.storing.place) == "s3://results/out/r.protobuf"
    claimed = result(STORING, work(), 6_000)
    found = told(pointer(claimed, "m", "2", REF, None))
    assert isinstance(found, Reply)
    assert (found.ref, found.content_type) == (REF, "application/x-protobuf")
    assert told(pointer(claimed, "m", "2", REF, DeadlineExceeded("late"))).ref == REF
    assert isinstance(told(unstored(claimed, "m", "2", InvalidRequest("no"))), InvalidRequest)


def test_a_client_reads_what_a_pointer_of_a_codec_points_to() -> None:
    found = read_stored(Reply("r", "m", "2", {}, ref=REF, content_type="application/protobuf"),
                        CODEC.encode_reply("r", "m", "2", INPUTS, {}))  # fmt: skip
    assert isinstance(found, Reply)
    assert found.outputs["x"].tolist() == [[1, 1]]


async def test_the_return_address_of_a_record_that_must_not_be_read_here_is_read_with_its_codec() -> None:
    asked = work(reply_to=ReplyTo("p.r", 1))
    refused = await read_return_address(asked.record, origin_of(asked.record), InvalidRequest("deadly"))
    assert refused is not None
    assert (refused.form, refused.id, refused.reply_to) == (CODEC, "r", ReplyTo("p.r", 1))


def test_the_reply_index_tells_forms_apart() -> None:
    asked = work()
    for form, same in (("protobuf", True), ("msgpack", False)):
        stored = reply_index._decode(msgspec.msgpack.encode(Stored(b"", form, b"v")), asked)
        assert (stored is not None) is same


@pytest.mark.parametrize(("version", "drop", "deadline_ms"), [("3", False, 16_000), (None, True, None)])
def test_a_dead_letter_is_written_anew_in_its_codec(version: str | None, drop: bool, deadline_ms: int | None) -> None:
    request = decode_record(work(version="2").record.value, TYPE, "f", 7000)
    assert isinstance(request, Request)
    value = written_anew(request, version, 7000, drop_deadline=drop)
    read = decode_record(value, TYPE, "f", 7000)
    assert isinstance(read, Request)
    assert (read.version, read.deadline_ms, read.inputs) == (version or "2", deadline_ms, INPUTS)


def test_verify_reads_replies_of_codecs() -> None:
    good, bad = result(SCRIBE, work()).outgoing, SCRIBE.failed(work(), DeadlineExceeded("late")).outgoing
    assert read_answer(good.value, good.key, good.headers) == ReadAnswer("r", "OK", "m")
    assert read_answer(bad.value, bad.key, bad.headers) == ReadAnswer("r", "DEADLINE_EXCEEDED", None)
    assert read_answer(b"\xff", b"k", TYPE) is None
