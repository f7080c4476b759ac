"""One HTTP request and its answer, as they pass through the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
VERSION_HEADER = b"headrace-model-version"
ID_HEADER = b"headrace-request-id"


@dataclass(slots=True)
class Call:
    """A request being answered, in one task. Errors are answered with what is known by then.

    Attributes:
        id: request id; the caller's once its body was read.
        model: from the path or body, None until known.
        url_version: from the path, None where it names none.
        version: that serves the request, None until the model is found.
        known_model: the name, once it proved to be a model: only such names become metric labels.
        surface: metric label.
        started_s: monotonic.
        body_read: whether the whole body was read.
        close: whether the connection ends with the answer, because the rest of the body is not waited for.
    """

    id: str
    receive: Receive
    headers: Iterable[tuple[bytes, bytes]]
    started_s: float
    model: str | None = None
    url_version: str | None = None
    version: str | None = None
    known_model: str | None = None
    surface: str = "other"
    body_read: bool = False
    close: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back; `headers` are added to those that every answer has."""

    body: bytes
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


Endpoint = Callable[[Call], Awaitable[Answer]]


def header(call: Call, name: bytes) -> bytes | None:
    """The first value of a request header, by lower-case name."""
    return next((value for key, value in call.headers if key == name), None)


async def send_answer(send: Send, call: Call, answer: Answer) -> None:
    """Send an answer with the headers that every answer carries."""
    headers = [
        (b"content-type", JSON),
        (b"content-length", b"%d" % len(answer.body)),
        (VERSION_HEADER, printable(call.version)),
        (ID_HEADER, call.id.encode("ascii")),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def printable(version: str | None) -> bytes:
    """A version as a header value: empty where no model is involved; never a byte that could end the header."""
    if not version:
        return b""
    return version.encode("ascii", "replace") if version.isprintable() else b"?"
