"""The error tree of headrace, shared by callers, gateway and workers.

    HeadraceError
      CallerError                  the request itself is at fault; sending it again cannot help
        InvalidRequest             INVALID_REQUEST
        UnknownModel               UNKNOWN_MODEL
        PayloadTooLarge            PAYLOAD_TOO_LARGE
        InputGone                  INPUT_GONE
      CapacityError                no room or not ready; the same request may succeed later
        ModelNotReady              MODEL_NOT_READY
        QueueFull                  QUEUE_FULL
        QuotaExceeded              QUOTA_EXCEEDED
      EndedError                   the caller's own limits ended the request
        DeadlineExceeded           DEADLINE_EXCEEDED
        Cancelled                  CANCELLED
      ServerError                  headrace or the model failed
        InferenceFailed            INFERENCE_FAILED
        RunnerCrashed              RUNNER_CRASHED
        OutOfMemory                OUT_OF_MEMORY
        Internal                   INTERNAL
          ResultGone               the result was stored, and is not there any more

An error crosses every border (Kafka, HTTP) as `{"id", "error": "<sentence>", "code": "<CODE>"}`. The docstring of a
class is its default message.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .dataref import DataRef


class Code(StrEnum):
    """Stable error codes of the wire; a reader may meet codes newer than itself."""

    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_MODEL = "UNKNOWN_MODEL"
    MODEL_NOT_READY = "MODEL_NOT_READY"
    QUEUE_FULL = "QUEUE_FULL"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    CANCELLED = "CANCELLED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    INPUT_GONE = "INPUT_GONE"
    INFERENCE_FAILED = "INFERENCE_FAILED"
    RUNNER_CRASHED = "RUNNER_CRASHED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    INTERNAL = "INTERNAL"


class HeadraceError(Exception):
    """The request failed.

    Attributes:
        code: stable code of the wire (`Code`), or the text of a code newer than this SDK.
        retryable: whether the same request may succeed when sent again.
        id: id of the request that failed, where one is known.
        index: place of the request in the iterable given to `Client.map`, else None.
        parameters: what a reply carried beside the error (batch rows, times), else empty.
        ref: where the reply that brought the error is stored, else None; for ResultGone what is gone.
        retry_after_s: set by model code on a failure that passes by itself: not to be tried again sooner.
    """

    code: str = Code.INTERNAL
    retryable: bool = False
    _by_code: ClassVar[dict[str, type[HeadraceError]]] = {}

    def __init__(self, message: str | None = None, *, id: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])
        self.id = id
        self.index: int | None = None
        self.parameters: dict[str, object] = {}
        self.ref: DataRef | None = None
        self.retry_after_s: float | None = None

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            HeadraceError._by_code[cls.code] = cls

    @property
    def message(self) -> str:
        """The sentence without its code."""
        return str(self.args[0])

    @staticmethod
    def from_code(code: str, message: str, *, id: str | None = None) -> HeadraceError:
        """The typed error for a code from the wire; an unknown code gives a plain HeadraceError carrying it."""
        error = HeadraceError._by_code.get(code, HeadraceError)(message, id=id)
        error.code = code
        return error


class CallerError(HeadraceError):
    """The request is at fault."""


class InvalidRequest(CallerError):
    """The request is not valid."""

    code = Code.INVALID_REQUEST


class UnknownModel(CallerError):
    """No such model or version is served."""

    code = Code.UNKNOWN_MODEL


class PayloadTooLarge(CallerError):
    """The request or its reply is larger than the broker accepts."""

    code = Code.PAYLOAD_TOO_LARGE


class InputGone(CallerError):
    """The stored input that the request refers to is gone."""

    code = Code.INPUT_GONE


class CapacityError(HeadraceError):
    """There is no room for the request now."""

    retryable = True


class ModelNotReady(CapacityError):
    """The model is not ready to serve."""

    code = Code.MODEL_NOT_READY


class QueueFull(CapacityError):
    """Too many requests are waiting."""

    code = Code.QUEUE_FULL


class QuotaExceeded(CapacityError):
    """The tenant has used up its quota."""

    code = Code.QUOTA_EXCEEDED


class EndedError(HeadraceError):
    """The request was ended before a result was there."""


class DeadlineExceeded(EndedError):
    """The deadline passed before a result was there."""

    code = Code.DEADLINE_EXCEEDED
    retryable = True


class Cancelled(EndedError):
    """The request was cancelled."""

    code = Code.CANCELLED


class ServerError(HeadraceError):
    """The server failed."""


class InferenceFailed(ServerError):
    """The model failed on this request."""

    code = Code.INFERENCE_FAILED


class RunnerCrashed(ServerError):
    """The process that ran the model died on this request."""

    code = Code.RUNNER_CRASHED


class OutOfMemory(ServerError):
    """The device ran out of memory on this request."""

    code = Code.OUT_OF_MEMORY
    retryable = True


class Internal(ServerError):
    """Something failed inside headrace."""

    code = Code.INTERNAL
    retryable = True


class ResultGone(Internal):
    """The stored result that the reply points to is gone, or is not what was stored."""
