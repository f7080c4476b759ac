"""What is refused before anything is sent, and what a request holds."""

import math
import time
from typing import Any

import numpy as np
import pytest

from producer_sdk._call import Call, check_call, encode_call
from producer_sdk._claims import Sending
from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import decode_json_request
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, decode_request

GOOD: dict[str, Any] = {
    "model": "mlp",
    "lane": "async",
    "deadline_s": 2.0,
    "tenant": "blue",
    "version": "3",
    "parameters": {"k": 1},
    "outputs": ["y"],
}


def call(**changes: Any) -> Call:
    return check_call(**(GOOD | changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "a.b"}, "model name 'a.b'"),
        ({"model": 7}, "model name 7"),
        ({"lane": "fast"}, "lane 'fast'"),
        ({"deadline_s": 0}, "deadline_s 0"),
        ({"deadline_s": -1.5}, "deadline_s -1.5"),
        ({"deadline_s": math.nan}, "deadline_s nan"),
        ({"deadline_s": math.inf}, "deadline_s inf"),
        ({"deadline_s": "3"}, "deadline_s 3"),
        ({"tenant": ""}, "tenant ''"),
        ({"version": "9" * 65}, "version '999"),
        ({"version": 3}, "version '3'"),
        ({"parameters": {"k": None}}, "parameter 'k' is NoneType"),
        ({"parameters": {str(n): n for n in range(65)}}, "65 parameters"),
        ({"outputs": []}, "outputs"),
        ({"outputs": ["y", "y"]}, "one output twice"),
    ],
)
def test_a_bad_argument_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**changes)
    assert named in refused.value.message


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({}, "0 inputs"),
        ([1, 2], "inputs are list"),
        ({"x": [[1], [1, 2]]}, "'x'"),
        ({"x": object()}, "'x'"),
        ({"x": np.zeros(2, np.complex64)}, "'x'"),
        ({3: [1]}, "input name '3'"),
        ({str(n): n for n in range(65)}, "65 inputs"),
    ],
)
def test_an_input_that_cannot_be_sent_is_refused_by_name_and_id(inputs: Any, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        encode_call(call(), "job-1", inputs, "msgpack", None)
    assert named in refused.value.message
    assert refused.value.id == "job-1"


@pytest.mark.parametrize("id", ["", "a b", "a/b", "é", "x" * 129])
def test_a_bad_id_is_refused(id: str) -> None:
    with pytest.raises(InvalidRequest, match="id "):
        encode_call(call(), id, {"x": 1}, "msgpack", None)


def written(sending: Sending) -> tuple[bytes, int]:
    """Value and timestamp of the record."""
    value, timestamp_ms = sending.record.value, sending.record.timestamp_ms
    assert value is not None
    assert timestamp_ms is not None
    return value, timestamp_ms


def test_a_msgpack_request_holds_every_argument_and_an_absolute_deadline() -> None:
    sending = encode_call(call(), "job-1", {"x": np.eye(2, dtype=np.float32)}, "msgpack", ReplyTo("t.r", 3))
    value, now_ms = written(sending)
    request = decode_request(value, "fallback")
    assert isinstance(request, Request)
    assert abs(now_ms - time.time() * 1000) < 5000
    assert (request.id, request.deadline_ms, request.reply_to) == ("job-1", now_ms + 2000, ReplyTo("t.r", 3))
    assert (request.tenant, request.version, request.parameters, request.outputs) == ("blue", "3", {"k": 1}, ("y",))
    np.testing.assert_array_equal(request.inputs["x"].to_array(), np.eye(2, dtype=np.float32))


def test_a_json_request_counts_its_deadline_from_the_records_timestamp() -> None:
    sending = encode_call(call(), "job-1", {"x": [1, 2]}, "json", ReplyTo("headrace.replies", 3))
    value, now_ms = written(sending)
    request = decode_json_request(value, "fallback", now_ms)
    assert isinstance(request, Request)
    assert (request.id, request.deadline_ms) == ("job-1", now_ms + 2000)
    assert (request.tenant, request.version, request.parameters) == ("blue", "3", {"k": 1})


def test_a_tensor_is_sent_as_it_is() -> None:
    tensor = Tensor.from_array(np.arange(3))
    sending = encode_call(call(), "job-1", {"x": tensor}, "msgpack", None)
    value, _ = written(sending)
    request = decode_request(value, "fallback")
    assert isinstance(request, Request)
    assert bytes(request.inputs["x"].data) == bytes(tensor.data)


def test_no_deadline_stays_none() -> None:
    sending = encode_call(call(deadline_s=None), "job-1", {"x": 1}, "msgpack", None)
    value, _ = written(sending)
    request = decode_request(value, "fallback")
    assert isinstance(request, Request)
    assert request.deadline_ms is None
