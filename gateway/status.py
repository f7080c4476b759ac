"""The one table error code -> HTTP status, and the errors that only HTTP knows."""

from __future__ import annotations

from producer_sdk.errors import Code, HeadraceError, InvalidRequest

STATUS: dict[str, int] = {
    Code.INVALID_REQUEST: 400,
    Code.UNKNOWN_MODEL: 404,
    Code.INPUT_GONE: 410,
    Code.PAYLOAD_TOO_LARGE: 413,
    Code.QUOTA_EXCEEDED: 429,
    Code.CANCELLED: 499,
    Code.INFERENCE_FAILED: 500,
    Code.RUNNER_CRASHED: 500,
    Code.INTERNAL: 500,
    Code.MODEL_NOT_READY: 503,
    Code.OUT_OF_MEMORY: 503,
    Code.QUEUE_FULL: 503,
    Code.DEADLINE_EXCEEDED: 504,
}

# Seconds after which a caller does well to ask again.
RETRY_AFTER_S: dict[str, int] = {
    Code.QUEUE_FULL: 1,
    Code.QUOTA_EXCEEDED: 1,
    Code.MODEL_NOT_READY: 2,
    Code.OUT_OF_MEMORY: 2,
}


class NoSuchPath(InvalidRequest):
    """There is nothing at this path."""


class MethodNotAllowed(InvalidRequest):
    """The path does not take this method; `allow` lists those it takes."""

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


def status_of(error: HeadraceError) -> int:
    """The HTTP status of an error; a code newer than this gateway is a 500."""
    if isinstance(error, NoSuchPath):
        return 404
    if isinstance(error, MethodNotAllowed):
        return 405
    return STATUS.get(error.code, 500)
