"""The keys of a `model.yaml` on delivery: dead letters, tries, what is not run twice, where results go. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from producer_sdk._limits import MAX_PREFIX_BYTES
from producer_sdk.dataref import S3Prefix
from producer_sdk.errors import Code, InvalidRequest
from producer_sdk.setting import shown

from .manifest_values import Wrong, convert, did_you_mean, unknown
from .retry_records import LONGEST_DELAY_S
from .runners.engine import RetryPolicy

DELIVERY_KEYS = frozenset(("dead_letter_codes", "dedupe", "profile", "reply_to", "retry"))
# The others are the caller's fault, are final, or, as RUNNER_CRASHED, have been counted and run alone already.
MAY_PASS = (
    Code.MODEL_NOT_READY,
    Code.QUEUE_FULL,
    Code.QUOTA_EXCEEDED,
    Code.INFERENCE_FAILED,
    Code.OUT_OF_MEMORY,
    Code.INTERNAL,
)
_CODES = Annotated[list[str], Meta(description="a list of error codes, such as [INTERNAL]")]
_Delay = Annotated[float, Meta(gt=0, le=LONGEST_DELAY_S)]
_RETRY: dict[str, Any] = {
    "limit": Annotated[int, Meta(ge=1, le=1000)],
    "first_delay_s": _Delay,
    "longest_delay_s": _Delay,
    "in_place_s": Annotated[float, Meta(ge=0, le=3600)],
}


def read_delivery(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    """Set what `content` says of failures in `settings`; yields each value that is wrong."""
    for read in (_read_dead_letter_codes, _read_dedupe, _read_profile, _read_reply_to, _read_retry):
        try:
            yield from read(content, settings)
        except Wrong as wrong:
            yield wrong


def _read_dead_letter_codes(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    if "dead_letter_codes" in content:
        codes = convert("dead_letter_codes", content["dead_letter_codes"], _CODES)
        yield from _wrong_codes("dead_letter_codes", codes)
        settings["dead_letter_codes"] = tuple(dict.fromkeys(codes))


def _read_dedupe(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    if "dedupe" in content:
        settings["dedupe"] = convert("dedupe", content["dedupe"], Literal["redis"])
    yield from ()


def _read_profile(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    if "profile" in content:
        settings["profile"] = convert("profile", content["profile"], Literal["cloudevents"])
    yield from ()


def _read_reply_to(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    if "reply_to" in content:
        try:
            prefix = settings["store"] = S3Prefix.parse(convert("reply_to", content["reply_to"], str))
            if len(prefix.prefix.encode()) > MAX_PREFIX_BYTES:
                yield Wrong("reply_to", f"its prefix may have {MAX_PREFIX_BYTES} bytes, so that every id makes a key")
        except InvalidRequest as err:
            yield Wrong("reply_to", f"{err.message.removesuffix('.')}: write s3://bucket/prefix/")


def _read_retry(content: Mapping[str, Any], settings: dict[str, Any]) -> Iterator[Wrong]:
    if "retry" not in content:
        return
    stated = convert("retry", content["retry"], dict[str, Any])
    values: dict[str, Any] = {}
    for key, value in stated.items():
        try:
            if key == "codes":
                codes = convert("retry.codes", value, _CODES)
                yield from _wrong_codes("retry.codes", codes, MAY_PASS)
                values[key] = tuple(dict.fromkeys(codes))
            elif key in _RETRY:
                values[key] = convert(f"retry.{key}", value, _RETRY[key])
            else:
                yield Wrong(f"retry.{key}", unknown(key, {"codes", *_RETRY}))
        except Wrong as wrong:
            yield wrong
    policy = replace(RetryPolicy(), **values)
    if policy.first_delay_s > policy.longest_delay_s:
        first, longest = (
            f"{key} ({getattr(policy, key):g}{'' if key in values else ', the default: set it too'})"
            for key in ("first_delay_s", "longest_delay_s")
        )
        at_fault = "longest_delay_s" if "longest_delay_s" in values else "first_delay_s"
        raise Wrong(f"retry.{at_fault}", f"{first} must be at most {longest}")
    settings["retry"] = policy


def _wrong_codes(key: str, codes: list[str], allowed: tuple[Code, ...] = tuple(Code)) -> Iterator[Wrong]:
    for place, code in enumerate(codes):
        if code not in list(Code):
            near = difflib.get_close_matches(code.upper(), list(Code), 1)
            yield Wrong(f"{key}[{place}]", f"{shown(code)} is no error code of headrace" + did_you_mean(near))
        elif code not in allowed:
            yield Wrong(f"{key}[{place}]", f"{code} does not pass by itself: use some of {', '.join(allowed)}")
