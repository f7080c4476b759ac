"""What model code raises becomes an error of the wire, and says whether the device is lost."""

from typing import Any

import pytest

from producer_sdk.errors import Code, InferenceFailed, ModelNotReady, QuotaExceeded
from workers.runners import messages
from workers.runners.faults import is_sticky, mishap_of
from workers.runners.messages import Done, Mishap, Piece


class Busy(Exception):
    code = "QUEUE_FULL"
    retry_after_s = 3


def crossed(err: BaseException) -> Any:
    """As the worker gets it."""
    done = messages.decode_done(messages.encode(Done(1, 0.1, 64, (), mishap_of(err))))
    assert done.error is not None
    return done.error.to_error()


@pytest.mark.parametrize(
    ("err", "code", "retry_after_s"),
    [(Busy("no room"), Code.QUEUE_FULL, 3.0), (ModelNotReady("no"), Code.MODEL_NOT_READY, None)],
)
def test_code_and_time_of_the_next_attempt_cross_from_runner_to_worker(
    err: Exception, code: str, retry_after_s: float | None
) -> None:
    error = crossed(err)
    assert (error.code, error.retry_after_s) == (code, retry_after_s)


def test_any_exception_may_say_when() -> None:
    for err in (QuotaExceeded("no"), ValueError("no")):
        err.retry_after_s = 0.5  # type: ignore[union-attr]
        assert crossed(err).retry_after_s == 0.5
    assert isinstance(crossed(err), InferenceFailed)


@pytest.mark.parametrize("said", ["soon", None, True, -1, float("nan"), float("inf"), 10**400, object(), [1]])
def test_what_is_no_time_is_ignored(said: object) -> None:
    err = ModelNotReady("no")
    err.retry_after_s = said  # type: ignore[assignment]
    assert crossed(err).retry_after_s is None


def test_records_that_passed_pay_nothing_for_it() -> None:
    encoded = messages.encode(Done(1, 0.1, 64, (Piece(1, 1),)))
    assert len(encoded) == len(messages.encode([1, 0.1, 64, [[1, 1, [], None]], None]))
    assert messages.decode_done(messages.encode([1, 0.1, 64, [], ["INTERNAL", "no"]])).error == Mishap("INTERNAL", "no")


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered",
        "CUDA error: the launch timed out and was terminated",
        "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 700: an illegal memory access was encountered ; GPU=0",
        "cudaErrorIllegalAddress: an illegal memory access was encountered",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
    ],
)
def test_a_lost_device_is_known_by_its_text(words: str) -> None:
    assert is_sticky(RuntimeError(words))
    assert not is_sticky(ValueError(words))


@pytest.mark.parametrize("words", ["CUDA error: invalid configuration argument", "CUDA out of memory", "no"])
def test_other_errors_leave_the_runner_alone(words: str) -> None:
    assert not is_sticky(RuntimeError(words))
