"""The two forms of a request, headrace's own and the naive loop's, and the reading of their replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgpack  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from benchmarks.subjects import ROWS_KEPT, Subject
from producer_sdk.errors import HeadraceError
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, decode_reply, encode_request

Array = NDArray[Any]
TENANT = "benchmark"
TOLERANCE = 1e-4
_NIL = b"\xc0"


class WrongReply(Exception):
    """A measured system gave a wrong answer: its speed means nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reply says: the request's number, and the outputs of its rows, with a leading axis."""

    number: int
    outputs: Mapping[str, Array]


class Form(Protocol):
    """How one system writes requests and replies."""

    def request(self, subject: Subject, number: int, reply_to: ReplyTo) -> bytes: ...
    def answer(self, value: bytes) -> Answer: ...
    def good(self, value: bytes, end: int) -> bytes: ...


def request_id(number: int) -> str:
    """As long as the ids that the SDK makes."""
    return f"benchmark-{number:012d}"


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])


class HeadraceForm:
    """The wire of headrace, through the SDK's own functions; `rows` samples a record."""

    def __init__(self, rows: int = 1) -> None:
        self._rows = rows

    def request(self, subject: Subject, number: int, reply_to: ReplyTo) -> bytes:
        inputs = {name: Tensor.from_array(array) for name, array in subject.row(number, self._rows).items()}
        return encode_request(Request(request_id(number), inputs, reply_to=reply_to, tenant=TENANT))

    def answer(self, value: bytes) -> Answer:
        reply = decode_reply(value)
        if isinstance(reply, HeadraceError):
            raise WrongReply(f"A reply is an error: {reply.code}: {reply.message}")
        return Answer(_number(reply.id), reply.outputs)

    def good(self, value: bytes, end: int) -> bytes:
        """What follows the id, which ends at `end`, in every reply that is no error: model, version, and no code."""
        return value[end : value.index(_NIL, end) + 1]


class NaiveForm:
    """What a program without headrace writes: a MessagePack map of eight facts and the tensor's bytes."""

    def request(self, subject: Subject, number: int, reply_to: ReplyTo) -> bytes:
        (row,) = subject.row(number).values()
        fields = {
            "id": request_id(number),
            "model": subject.name,
            "version": "1",
            "tenant": TENANT,
            "deadline_ms": None,
            "reply_to": str(reply_to),
            "dtype": row.dtype.str,
            "shape": list(row.shape[1:]),
            "data": row.tobytes(),
        }
        value: bytes = msgpack.packb(fields)
        return value

    def answer(self, value: bytes) -> Answer:
        reply = msgpack.unpackb(value)
        output = np.frombuffer(reply["data"], reply["dtype"]).reshape(reply["shape"])
        return Answer(_number(reply["id"]), {reply["output"]: output[np.newaxis]})

    def good(self, value: bytes, end: int) -> bytes:
        """Nothing: the naive loop knows no error replies."""
        return b""


def check_answers(answers: list[Answer], expected: Mapping[str, Array], rows: int = 1) -> None:
    """Raises WrongReply unless each answer, of `rows` rows, has the right value and no request is answered twice."""
    if len({answer.number for answer in answers}) != len(answers):
        raise WrongReply("A request was answered twice.")
    for answer in answers:
        first = answer.number * rows % ROWS_KEPT
        for name, output in answer.outputs.items():
            right = expected[name][first : first + rows]
            if output.shape != right.shape or not np.allclose(output, right, rtol=TOLERANCE, atol=TOLERANCE):
                raise WrongReply(f"Request {answer.number} got a wrong {name}: {output[0, :4]}, not {right[0, :4]}.")
