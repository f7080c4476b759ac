"""A record becomes a request that can run, or a rejection whose sentence says why. Nothing raises."""

import struct
from typing import Any

import numpy as np
import pytest
from decode_rig import NOW, REPLIES, SOURCE, ARecord, X, accepted, decoder, json_record, read, refused, rows
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import Code
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import Form, Request, encode_request
from workers.decode import Decoder
from workers.runners.engine import TensorSpec
from workers.work import Rejected, Work


def request(inputs: dict[str, Any], by: Decoder | None = None, **fields: Any) -> Work | Rejected:
    tensors = {name: Tensor.from_array(value) for name, value in inputs.items()}
    return read(ARecord(encode_request(Request("a", tensors, **fields))), by)


def test_a_request_that_fits_says_its_rows_bytes_and_lane() -> None:
    work = accepted(request({"x": rows(3)}, reply_to=REPLIES))
    assert (work.rows, work.nbytes, work.lane, work.bucket) == (3, 24, Lane.ASYNC, ())
    assert (work.arrived, work.expires, work.source, work.request.reply_to) == (100.0, None, SOURCE, REPLIES)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({}, "input 'x' is missing: the model takes x FP32 [rows, 2]"),
        ({"z": rows()}, "input 'x' is missing: the model takes x FP32 [rows, 2]"),
        ({"x": rows(), "w": rows(), "u": rows()}, "input 'u' is not known: the model takes x FP32 [rows, 2]"),
        ({"x": rows(dtype=np.float64)}, "input 'x' is FP64, but the model takes FP32"),
        ({"x": rows(width=3)}, "input 'x' has shape [1, 3], but the model takes [rows, 2]"),
        ({"x": np.ones(2, np.float32)}, "input 'x' has shape [2], but the model takes [rows, 2]"),
        ({"x": np.float32(1)}, "input 'x' has shape [], but the model takes [rows, 2]"),
        ({"x": rows(0)}, "input 'x' has 0 rows: a record holds 1 to 8"),
        ({"x": rows(9)}, "input 'x' has 9 rows: a record holds 1 to 8"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_by_name(inputs: dict[str, Any], sentence: str) -> None:
    rejected = refused(request(inputs, reply_to=REPLIES))
    assert (rejected.error.code, rejected.error.message) == (Code.INVALID_REQUEST, sentence)
    assert (rejected.id, rejected.reply_to, rejected.dead) == ("a", REPLIES, None)


def test_a_single_number_is_no_row_even_where_a_row_has_no_dimension() -> None:
    scalars = decoder(TensorSpec("x", Datatype.FP32, ()))
    assert accepted(request({"x": np.ones(4, np.float32)}, scalars)).rows == 4
    rejected = refused(request({"x": np.float32(1)}, scalars))
    assert rejected.error.message == "input 'x' has shape [], but the model takes [rows]"


def test_inputs_must_agree_on_their_rows() -> None:
    both = decoder(X, TensorSpec("w", Datatype.FP32, (2,)))
    rejected = refused(request({"x": rows(2), "w": rows(3)}, both))
    assert rejected.error.message == "input 'w' has 3 rows, but another input has 2"


@pytest.mark.parametrize(
    ("datatype", "data", "sentence"),
    [
        (Datatype.BOOL, b"\x01\x02", "input 'x': a BOOL element is neither 0 nor 1"),
        (Datatype.BYTES, b"\x09\0\0\0ab\0\0", "input 'x': BYTES data ends within element 0 of 2"),
    ],
)
def test_content_that_shape_and_size_do_not_show_is_checked(datatype: Datatype, data: bytes, sentence: str) -> None:
    value = encode_request(Request("a", {"x": Tensor(datatype, (1, 2), data)}))
    rejected = refused(read(ARecord(value), decoder(TensorSpec("x", datatype, (2,)))))
    assert rejected.error.message == sentence


def test_requests_of_other_shapes_or_other_unbatched_inputs_are_in_other_buckets() -> None:
    varying = decoder(TensorSpec("x", Datatype.FP32, (-1,)), TensorSpec("k", Datatype.INT64, (1,), batched=False))
    asked = [(2, 5), (2, 6), (3, 5), (2, 5)]
    works = [accepted(request({"x": rows(1, width), "k": np.array([k])}, varying)) for width, k in asked]
    assert len({work.bucket for work in works}) == 3
    assert works[0].bucket == works[3].bucket
    rejected = refused(request({"x": rows(1, 2), "k": np.array([1, 2])}, varying))
    assert rejected.error.message == "input 'k' has shape [2], but the model takes [1]"


def test_a_model_without_batched_inputs_takes_one_row_a_record() -> None:
    whole = decoder(TensorSpec("x", Datatype.FP32, (2, 2), batched=False))
    assert accepted(request({"x": rows(2)}, whole)).rows == 1


@pytest.mark.parametrize("topic", ["other.replies", "p.m.interactive", "p.m.dead", "p.m.retry", "p.control"])
def test_a_return_address_outside_the_prefix_or_that_headrace_reads_is_refused_and_never_used(topic: str) -> None:
    rejected = refused(request({"x": rows()}, reply_to=ReplyTo(topic, None)))
    assert rejected.error.message == (
        f"reply_to '{topic}' is not allowed: replies go to topics under 'p.' that headrace does not read itself"
    )
    assert rejected.reply_to is None


def test_another_version_than_the_one_served_is_an_unknown_model() -> None:
    assert accepted(request({"x": rows()}, version="2")).rows == 1
    rejected = refused(request({"x": rows()}, version="3", reply_to=REPLIES))
    assert (rejected.error.code, rejected.reply_to) == (Code.UNKNOWN_MODEL, REPLIES)
    assert rejected.error.message == "version '3' of model 'm' is not served: version 2 is"


def test_an_output_that_the_model_has_not_is_refused() -> None:
    assert accepted(request({"x": rows()}, outputs=("z",))).request.outputs == ("z",)
    rejected = refused(request({"x": rows()}, outputs=("z", "q")))
    assert rejected.error.message == "model 'm' has no output 'q': it has ['y', 'z']"


def test_a_deadline_becomes_a_time_of_the_monotonic_clock() -> None:
    assert accepted(request({"x": rows()}, deadline_ms=NOW.epoch_ms + 1500)).expires == 101.5
    far = accepted(request({"x": rows()}, deadline_ms=253_402_300_799_999))
    assert far.expires is not None
    assert far.expires > 1e11


@pytest.mark.parametrize(("deadline_ms", "late"), [(NOW.epoch_ms, "0.000"), (NOW.epoch_ms - 250, "0.250"), (0, "1000")])
def test_a_deadline_that_has_passed_is_refused_with_how_late_it_is(deadline_ms: int, late: str) -> None:
    rejected = refused(request({"x": rows()}, deadline_ms=deadline_ms, reply_to=REPLIES))
    assert rejected.error.code == Code.DEADLINE_EXCEEDED
    assert f"had passed {late}" in rejected.error.message
    assert rejected.reply_to == REPLIES


def test_a_relative_deadline_and_the_default_one_count_from_the_records_timestamp() -> None:
    early = NOW.epoch_ms - 400
    assert accepted(read(json_record(early, deadline_s=1.0))).expires == 100.6
    assert accepted(read(json_record(early), decoder(default_deadline_s=2.0))).expires == 101.6
    assert accepted(read(json_record(early, deadline_s=1.0), decoder(default_deadline_s=2.0))).expires == 100.6


def test_a_record_without_timestamp_counts_from_when_it_is_read() -> None:
    assert accepted(read(json_record(-1, deadline_s=1.0))).expires == 101.0
    assert accepted(read(json_record(-1), decoder(default_deadline_s=2.0))).expires == 102.0


def test_a_json_refusal_is_answered_in_json_under_the_derived_id() -> None:
    rejected = refused(read(json_record(NOW.epoch_ms, version="9")))
    assert (rejected.form, rejected.id) == (Form.JSON, "p.m.async:3:7")


@pytest.mark.parametrize("value", [None, b"", b"\xc1", b"[1]", struct.pack(">BI", 0xDD, 2**32 - 1), b"[" * 100_000])
def test_what_cannot_be_read_is_kept_whole_for_the_dead_letters(value: bytes | None) -> None:
    rejected = refused(read(ARecord(value, headers=[("a", b"b")])))
    assert rejected.dead == (b"key", value, [("a", b"b")], NOW.epoch_ms)
    assert (rejected.id, rejected.error.code) == ("p.m.async:3:7", Code.INVALID_REQUEST)


VALID = encode_request(Request("a", {"x": Tensor.from_array(rows())}, deadline_ms=5, reply_to=REPLIES, outputs=("y",)))


@given(st.data())
def test_no_change_of_a_valid_record_makes_the_decoder_raise(data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from([VALID, json_record(0, deadline_s=1, tenant="t").value or b""])))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(value)))
        value[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    shapes = data.draw(st.sampled_from([(), (2,), (-1,), (1, 2)]))
    batched = data.draw(st.booleans())
    assert read(ARecord(bytes(value)), decoder(TensorSpec("x", Datatype.FP32, shapes, batched))) is not None


@given(st.lists(st.integers(0, 3), max_size=4), st.sampled_from(Datatype), st.booleans())
def test_no_shape_makes_the_decoder_raise(shape: list[int], datatype: Datatype, batched: bool) -> None:
    elements = int(np.prod(shape))
    item = 4 if datatype is Datatype.BYTES else np.dtype(np.float32).itemsize
    value = encode_request(Request("a", {"x": Tensor(datatype, tuple(shape), bytes(elements * item))}))
    for declared in ((), (2,), (-1,), (-1, -1), (1, -1)):
        assert read(ARecord(value), decoder(TensorSpec("x", datatype, declared, batched))) is not None
