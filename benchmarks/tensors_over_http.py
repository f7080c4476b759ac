"""A model's rows as bodies of HTTP requests, and answers read: raw bytes, lists in JSON, Open Inference Protocol v2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from benchmarks.records import TOLERANCE, WrongReply
from benchmarks.subjects import Array, Subject

BODIES = 64  # different ones that a load sends in turn


class HttpForm(Protocol):
    """How a server wants a row, and what it answers. `headers` are lines of the head beyond the content's type."""

    content_type: str

    def headers(self, subject: Subject) -> dict[str, str]: ...
    def body(self, subject: Subject, number: int) -> bytes: ...
    def outputs(self, answer: bytes, expected: Mapping[str, Array]) -> Mapping[str, Array]: ...


class RawForm:
    """The bytes of the inputs one after another, in the model's order; outputs the same way."""

    content_type = "application/octet-stream"

    def headers(self, subject: Subject) -> dict[str, str]:
        return {}

    def body(self, subject: Subject, number: int) -> bytes:
        return b"".join(array.tobytes() for array in subject.row(number).values())

    def outputs(self, answer: bytes, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        found, at = {}, 0
        for name, right in expected.items():
            found[name] = np.frombuffer(answer[at : at + right.nbytes], right.dtype).reshape(right.shape)
            at += right.nbytes
        return found


class FlatJsonForm:
    """A JSON list of one row with the values of all inputs, for frameworks whose way in is JSON; such a list back."""

    content_type = "application/json"

    def headers(self, subject: Subject) -> dict[str, str]:
        return {}

    def body(self, subject: Subject, number: int) -> bytes:
        values = [value for array in subject.row(number).values() for value in array.ravel().tolist()]
        return json.dumps({"rows": [values]}).encode()

    def outputs(self, answer: bytes, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        values, found, at = np.array(json.loads(answer)).ravel(), {}, 0
        for name, right in expected.items():
            found[name] = values[at : at + right.size].reshape(right.shape)
            at += right.size
        return found


_TYPES: Mapping[str, str] = {"float32": "FP32", "int32": "INT32", "int64": "INT64"}


def _described(name: str, array: Array) -> dict[str, Any]:
    return {"name": name, "shape": list(array.shape), "datatype": _TYPES[array.dtype.name]}


class OipForm:
    """Open Inference Protocol v2 in JSON, as headrace's gateway takes it."""

    content_type = "application/json"

    def headers(self, subject: Subject) -> dict[str, str]:
        return {}

    def body(self, subject: Subject, number: int) -> bytes:
        inputs = [
            _described(name, array) | {"data": [round(value, 6) for value in array.ravel().tolist()]}
            for name, array in subject.row(number).items()
        ]
        return json.dumps({"inputs": inputs}, separators=(",", ":")).encode()

    def outputs(self, answer: bytes, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        return {each["name"]: np.array(each["data"]).reshape(each["shape"]) for each in json.loads(answer)["outputs"]}


class BinaryOipForm:
    """The same protocol with Triton's binary tensors: the description as JSON, the bytes behind it."""

    content_type = "application/octet-stream"

    def headers(self, subject: Subject) -> dict[str, str]:
        return {"Inference-Header-Content-Length": str(len(self._description(subject)))}

    def body(self, subject: Subject, number: int) -> bytes:
        return self._description(subject) + RawForm().body(subject, number)

    def outputs(self, answer: bytes, expected: Mapping[str, Array]) -> Mapping[str, Array]:
        _, end = json.JSONDecoder().raw_decode(answer.decode("latin-1"))
        return RawForm().outputs(answer[end:], expected)

    def _description(self, subject: Subject) -> bytes:
        inputs = [
            _described(name, array) | {"parameters": {"binary_data_size": array.nbytes}}
            for name, array in subject.row(0).items()
        ]
        return json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()


def bodies(subject: Subject, form: HttpForm) -> tuple[bytes, ...]:
    """What a load sends in turn."""
    return tuple(form.body(subject, number) for number in range(BODIES))


def check(answer: bytes, form: HttpForm, expected: Mapping[str, Array]) -> None:
    """Raises WrongReply unless the answer is that to row 0: a wrong server's speed means nothing."""
    right = {name: array[:1] for name, array in expected.items()}
    for name, output in form.outputs(answer, right).items():
        if output.shape != right[name].shape or not np.allclose(output, right[name], rtol=TOLERANCE, atol=TOLERANCE):
            raise WrongReply(f"Row 0 got a wrong {name}: {output.ravel()[:4]}, not {right[name].ravel()[:4]}.")
