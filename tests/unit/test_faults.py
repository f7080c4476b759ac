"""What model code raises becomes an error of the wire, and says whether the device is lost."""

import errno
from typing import Any

import numpy as np
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


class OutOfMemoryError(RuntimeError):
    """As torch and cupy name theirs."""


ARENA = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Name:'c' "
    "Status Message: bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) "
    "Failed to allocate memory for requested buffer of size 939524096"
)


@pytest.mark.parametrize(
    "err",
    [
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((1 << 40,), np.dtype(np.float32)),  # type: ignore[attr-defined]
        OutOfMemoryError("no words"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(ARENA),
        RuntimeError("Available memory of 100 is smaller than requested bytes of 200"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA failure 2: out of memory ; GPU=0"),
        RuntimeError("CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED ; GPU=0"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("cudaErrorMemoryAllocation"),
    ],
)
def test_memory_that_ran_out_is_known_whoever_says_so(err: Exception) -> None:
    assert crossed(err).code == Code.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "err", [ValueError("out of memory"), OSError(errno.ENOSPC, "no"), RuntimeError("out of range"), KeyError("memory")]
)
def test_other_errors_are_no_want_of_memory(err: Exception) -> None:
    assert crossed(err).code == Code.INFERENCE_FAILED


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
