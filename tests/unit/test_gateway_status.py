"""Every code has its status, and every error answer has the one shape."""

import json

import pytest

from gateway.answers import error_answer
from gateway.call import Call, Message
from gateway.status import RETRY_AFTER_S, STATUS, MethodNotAllowed, NoSuchPath, status_of
from producer_sdk.errors import Code, HeadraceError

EXPECTED = {
    "INVALID_REQUEST": 400,
    "UNKNOWN_MODEL": 404,
    "PAYLOAD_TOO_LARGE": 413,
    "QUEUE_FULL": 503,
    "QUOTA_EXCEEDED": 429,
    "MODEL_NOT_READY": 503,
    "DEADLINE_EXCEEDED": 504,
    "CANCELLED": 499,
    "INPUT_GONE": 410,
    "INFERENCE_FAILED": 500,
    "RUNNER_CRASHED": 500,
    "INTERNAL": 500,
    "OUT_OF_MEMORY": 503,
}


async def nothing() -> Message:
    return {"type": "http.disconnect"}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_its_status(code: Code) -> None:
    assert status_of(HeadraceError.from_code(code, "")) == EXPECTED[code]


def test_the_table_holds_nothing_else() -> None:
    assert set(STATUS) == set(Code)
    assert set(RETRY_AFTER_S) <= {code for code, status in STATUS.items() if status in (429, 503)}


def test_a_code_from_the_future_is_a_server_error() -> None:
    assert status_of(HeadraceError.from_code("BRAND_NEW", "")) == 500


def test_paths_and_methods_have_statuses_of_their_own() -> None:
    assert status_of(NoSuchPath("no")) == 404
    answer = error_answer(Call("an-id", nothing, [], 0.0), MethodNotAllowed("no", "GET, HEAD"))
    assert (answer.status, dict(answer.headers)) == (405, {b"allow": b"GET, HEAD"})


def test_a_refused_caller_that_waits_for_continue_is_disconnected() -> None:
    waiting = Call("an-id", nothing, [(b"expect", b"100-continue")], 0.0)
    assert dict(error_answer(waiting, NoSuchPath("no")).headers) == {b"connection": b"close"}
    waiting.body_read = True
    assert error_answer(waiting, NoSuchPath("no")).headers == []


def test_an_error_has_one_shape_and_says_when_to_come_back() -> None:
    answer = error_answer(Call("an-id", nothing, [], 0.0), HeadraceError.from_code("QUEUE_FULL", 'it is "full"'))
    assert json.loads(answer.body) == {"id": "an-id", "error": 'it is "full"', "code": "QUEUE_FULL"}
    assert dict(answer.headers) == {b"retry-after": b"1"}
