"""What a payload store raises, and how its refusals are named within `_s3_*.py`."""

from __future__ import annotations

from enum import Enum

from .broker import Misconfigured
from .dataref import S3Key
from .errors import HeadraceError, InputGone, Internal


class PayloadUnavailable(Internal):
    """The payload store did not do what was asked, in the time there was; later it may."""


class InputDenied(InputGone):
    """The payload store forbids to read the object, or to know whether it is there."""


class Refusal(Enum):
    """Why the store did not do what one request asked."""

    AGAIN = "it passes by itself"
    MISSING = "no such object or bucket"
    DENIED = "no right to do that"
    TAKEN = "the condition on what is there does not hold"
    CONFLICT = "somebody else writes the same key"
    EMPTY = "the object has none of the bytes asked for"
    NO_UPLOAD = "no such multipart upload"
    WRONG = "the same again cannot help"


class S3Refused(Exception):
    """One request was refused; never leaves `_s3_*.py`."""

    def __init__(self, refusal: Refusal, reason: str) -> None:
        super().__init__(reason)
        self.refusal = refusal
        self.reason = reason


def get_error(refused: S3Refused, place: S3Key) -> HeadraceError:
    """The error of a read that was refused."""
    if refused.refusal in (Refusal.MISSING, Refusal.EMPTY):
        return InputGone(f"{place} is gone: {refused.reason}.")
    if refused.refusal is Refusal.DENIED:
        return InputDenied(
            f"{place} may not be read: {refused.reason}. Either s3:GetObject is not granted, or the object is missing "
            "and s3:ListBucket is not granted."
        )
    if refused.refusal is Refusal.TAKEN:
        return InputGone(f"{place} kept changing while it was read.")
    return Misconfigured(f"{place} cannot be read: {refused.reason}.")


def write_error(refused: S3Refused, what: str, right: str) -> Misconfigured:
    """The error of a write (or listing) that was refused; `right` is the one that it takes."""
    if refused.refusal is Refusal.DENIED:
        return Misconfigured(f"Cannot {what}: {refused.reason}. Grant {right} on the bucket.")
    if refused.refusal is Refusal.MISSING:
        return Misconfigured(f"Cannot {what}: {refused.reason}. Create the bucket, or name another.")
    return Misconfigured(f"Cannot {what}: {refused.reason}.")
