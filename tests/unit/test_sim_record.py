"""Records of request topics read as arrivals."""

from pathlib import Path

import numpy as np
import pytest

from headrace.sim_record import Reader, from_zero
from headrace.sim_trace import Arrival
from producer_sdk._read_record import ReadRecord
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request, encode_request
from workers.runners.engine import ModelSpec, TensorSpec
from workers.runners.policies import BatchPolicy

TOPICS = Topics("p")


def spec(**more: object) -> ModelSpec:
    inputs = (TensorSpec("x", Datatype.FP32, (2,)),)
    return ModelSpec("m", "1", Path(), "python", inputs=inputs, **more)  # type: ignore[arg-type]


def record(rows: int = 1, lane: Lane = Lane.ASYNC, at_ms: int = 1_000_500, **more: object) -> ReadRecord:
    inputs = {"x": Tensor.from_array(np.zeros((rows, 2), np.float32))}
    value = encode_request(Request("a", inputs, **more))  # type: ignore[arg-type]
    return ReadRecord(TOPICS.requests("m", lane), 0, 0, at_ms, None, value, ())


def test_an_arrival_has_what_the_record_asks_for() -> None:
    read = Reader(TOPICS, "m", spec()).read(record(3, Lane.BULK, deadline_ms=1_000_750, tenant="acme"))
    assert read == Arrival(1000.5, Lane.BULK, 3, 3.0, 24, 0.25, (), "acme")


def test_a_request_without_a_deadline_has_the_models() -> None:
    read = Reader(TOPICS, "m", spec(default_deadline_s=2.0)).read(record())
    assert read is not None
    assert read.deadline_s == 2.0


def test_a_priority_is_the_models_or_where_no_model_is_known_the_one_asked_for() -> None:
    levels = BatchPolicy(priority_levels=2, default_priority=2)
    asked = [record(parameters={"priority": level}) for level in (0, 1, 9)]
    of_model, of_topics = Reader(TOPICS, "m", spec(batching=levels)), Reader(TOPICS, "m", None)
    arrivals = [reader.read(each) for reader in (of_model, of_topics) for each in asked]
    assert [each.priority for each in arrivals if each is not None] == [2, 1, 2, 0, 1, 9]
    assert of_model.read(record(parameters={"priority": -1})) is None


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}"])
def test_what_workers_would_refuse_is_no_arrival(value: bytes | None) -> None:
    bad = ReadRecord(TOPICS.requests("m", Lane.ASYNC), 0, 0, 1, None, value, ())
    assert Reader(TOPICS, "m", spec()).read(bad) is None


def test_a_request_that_does_not_fit_the_signature_is_no_arrival() -> None:
    assert Reader(TOPICS, "m", spec(max_batch_size=2)).read(record(3)) is None


def test_without_a_model_directory_shapes_are_the_bucket() -> None:
    read = Reader(TOPICS, "m", None).read(record(3))
    assert read is not None
    assert (read.rows, read.cost, read.bucket) == (3, 3.0, ((2,),))


def test_a_trace_begins_at_zero_in_order_of_time() -> None:
    assert [each.at_s for each in from_zero([Arrival(12.5), Arrival(10.0), Arrival(11.25)])] == [0.0, 1.25, 2.5]
