"""The two systems of a benchmark get the same work in records of about the same size."""

from pathlib import Path

import msgpack
import pytest

from benchmarks.kafka_load import Target, Templates
from benchmarks.records import HeadraceForm, NaiveForm
from benchmarks.subjects import ROWS_KEPT, Subject
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, decode_request

REPLY_TO = ReplyTo("bench.replies", 7)
MLP = Subject.of("mlp", Path("mlp.onnx"))


def test_both_systems_read_the_same_row() -> None:
    ours = decode_request(HeadraceForm().request(MLP, ROWS_KEPT + 3, REPLY_TO), "")
    naive = msgpack.unpackb(NaiveForm().request(MLP, ROWS_KEPT + 3, REPLY_TO))
    assert isinstance(ours, Request)
    assert bytes(ours.inputs["x"].data) == naive["data"] == MLP.rows["x"][3].tobytes()


def test_the_naive_request_has_eight_facts_and_the_tensor() -> None:
    assert len(msgpack.unpackb(NaiveForm().request(MLP, 0, REPLY_TO))) == 8 + 1


def test_both_requests_are_about_the_same_size() -> None:
    ours, naive = (len(form.request(MLP, 0, REPLY_TO)) for form in (HeadraceForm(), NaiveForm()))
    assert naive == pytest.approx(ours, rel=0.1)


def test_a_record_of_many_rows_holds_the_rows_of_its_number() -> None:
    ours = decode_request(HeadraceForm(64).request(MLP, ROWS_KEPT // 64 + 3, REPLY_TO), "")
    assert isinstance(ours, Request)
    assert bytes(ours.inputs["x"].data) == MLP.rows["x"][3 * 64 : 4 * 64].tobytes()


def test_a_prepared_request_differs_from_an_encoded_one_in_nothing() -> None:
    form = HeadraceForm()
    prepared = Templates(MLP, Target("requests", REPLY_TO, form))
    number = 123_456_789_012
    assert prepared.value(number) == form.request(MLP, number, REPLY_TO)
