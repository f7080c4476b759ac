"""Dead letters on the terminal and as JSON. Pure."""

import base64
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.dead_reader import Letter
from headrace.show_reply import shown
from producer_sdk.broker import Headers
from producer_sdk.dead_letters import original_headers, redrives
from producer_sdk.errors import InvalidRequest
from producer_sdk.forms import name_of
from producer_sdk.oip import tensor_to_json
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Request

CHARS_SHOWN = 120
VALUES_SHOWN, VALUES_BYTES = 8, 1024  # of tensors up to these sizes


def summary(letter: Letter, redriven: bool) -> dict[str, Any]:
    """A letter as JSON, without what the record holds."""
    facts = letter.facts
    origin = facts and {"topic": facts.topic, "partition": facts.partition, "offset": facts.offset,
                        "timestamp_ms": facts.timestamp_ms}  # fmt: skip
    return {
        "place": letter.place,
        "id": letter.id,
        "code": facts and facts.code,
        "attempts": facts and facts.attempts,
        "when": when_text(letter.record.timestamp, utc=True),
        "origin": origin,
        "group": facts and facts.group,
        "message": facts and facts.message,
        "cut_from_bytes": facts and facts.cut_from_bytes,
        "redriven": redriven,
        "redrives": redrives(letter.record.headers),
    }


def document(letter: Letter, redriven: bool) -> dict[str, Any]:
    """A letter as JSON, with key and headers of the record and the request in it, or why there is none."""
    request = letter.request
    asked = _request(request) if isinstance(request, Request) else None
    key = letter.record.key
    return {
        **summary(letter, redriven),
        "key": None if key is None else _text_or_base64(key),
        "headers": [{"name": name, **_text_or_base64(content or b"")} for name, content in _originals(letter)],
        "value_bytes": len(letter.record.value or b""),
        "request": asked,
        "fault": None if asked is not None else why_not(letter),
    }


def lines(letter: Letter, redriven: bool) -> list[str]:
    """A letter for people: facts, key and headers, then the request."""
    facts, record = letter.facts, letter.record
    told: dict[str, object] = {"place": f"{letter.place} of {record.topic}", "id": letter.id}
    if facts is None:
        told["origin"] = "unknown: it has no headrace-dead-* headers, so headrace did not write it"
    else:
        published = "" if facts.timestamp_ms < 0 else f", published {when_text(facts.timestamp_ms)}"
        told |= {"code": facts.code, "message": facts.message, "attempts": facts.attempts, "group": facts.group}
        told["origin"] = f"{facts.topic}:{facts.partition}:{facts.offset}{published}"
    told["dead since"] = when_text(record.timestamp)
    told["re-driven"] = "yes" if redriven else "no"
    if times := redrives(record.headers):
        told["re-drives"] = f"{times} before it became this letter"
    told["key"] = "none" if record.key is None else _shown(record.key)
    told |= {f"header {name}": _shown(content or b"") for name, content in _originals(letter)}
    size = f"{len(record.value or b'')} bytes"
    cut = facts and facts.cut_from_bytes
    told["value"] = size if cut is None else f"the first {size} of {cut}: the whole was too large to be kept"
    told |= _request_lines(letter)
    width = max(map(len, told)) + 2
    return [f"{name.ljust(width)}{printable(str(value))}" for name, value in told.items()]


def why_not(letter: Letter) -> str:
    """Why there is no request in it."""
    request = letter.request
    if isinstance(request, Request):
        return ""
    return request.message if isinstance(request, Exception) else request.error.message


def when_text(epoch_ms: int, *, utc: bool = False) -> str:
    """A time in this machine's zone for people; in UTC, to the millisecond, for programs."""
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
        text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return text if utc else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # any producer may write any time
        return str(epoch_ms)


def printable(text: str) -> str:
    """On one line, and nothing in it that a terminal would act upon."""
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in text)


def _originals(letter: Letter) -> Headers:
    return original_headers(letter.record.headers)


def _request_lines(letter: Letter) -> Mapping[str, object]:
    request = letter.request
    if not isinstance(request, Request):
        return {"request": f"none: {why_not(letter)}"}
    asked = _request(request)
    del asked["inputs"]
    inputs = {f"input {name}": _input_line(tensor) for name, tensor in request.inputs.items()}
    parameters = {f"parameter {name}": repr(value) for name, value in asked.pop("parameters").items()}
    return {**{name: value for name, value in asked.items() if value is not None}, **parameters, **inputs}


def _request(request: Request) -> dict[str, Any]:
    return {
        "form": name_of(request.form),
        "deadline": None if request.deadline_ms is None else when_text(request.deadline_ms, utc=True),
        "reply_to": None if request.reply_to is None else str(request.reply_to),
        "tenant": request.tenant,
        "version": request.version,
        "outputs": None if request.outputs is None else list(request.outputs),
        "parameters": request.parameters,
        "inputs": [_input(name, tensor) for name, tensor in request.inputs.items()],
    }


def _input(name: str, tensor: Tensor) -> dict[str, Any]:
    described = {"name": name, "datatype": tensor.datatype.value, "shape": list(tensor.shape)}
    written: Mapping[str, Any] = _written(tensor) or {}
    content = {"data": None if "parameters" in written else written.get("data")}  # base64 is for --raw
    return {**described, "bytes": len(tensor.data), **content}


def _input_line(tensor: Tensor) -> str:
    values = shown(tensor.to_array()) if _written(tensor) else ""
    size = f"{tensor.datatype} {list(tensor.shape)}, {len(tensor.data)} bytes"
    return f"{size}: {values}" if values else size


def _written(tensor: Tensor) -> Mapping[str, Any] | None:
    """A small tensor as JSON has it; None for a large one, or one that cannot be read."""
    if math.prod(tensor.shape) > VALUES_SHOWN or len(tensor.data) > VALUES_BYTES:
        return None
    try:
        tensor.to_array()
        return tensor_to_json("", tensor)
    except InvalidRequest:  # BYTES whose lengths do not fit, or BF16 where ml_dtypes is missing
        return None


def _text_or_base64(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _shown(content: bytes) -> str:
    text = content.decode("utf-8", "backslashreplace")
    return text if len(text) <= CHARS_SHOWN else f"{text[:CHARS_SHOWN]}... ({len(content)} bytes)"
