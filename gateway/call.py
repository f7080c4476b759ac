"""One HTTP request and its answer, as they pass through the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from msgspec import Struct

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

T = TypeVar("T")

JSON = b"application/json"
VERSION_HEADER = b"headrace-model-version"
ID_HEADER = b"headrace-request-id"
_HEAD = b"%%bcontent-type: %%b\r\ncontent-length: %%d\r\n%b: %%b\r\n%b: %%b\r\n" % (VERSION_HEADER, ID_HEADER)
_PHRASES = {each.value: each.phrase.encode() for each in HTTPStatus}
_STATUS_LINES = {each: b"HTTP/1.1 %d %b\r\n" % (each, _PHRASES.get(each, b"")) for each in range(100, 600)}


async def nothing() -> Message:
    """What comes from a caller whose request could not be read."""
    return {"type": "http.disconnect"}


class Caller(Protocol):
    """What our own server knows of who asks, beside what ASGI tells."""

    def whole_body(self) -> bytes | None:
        """The body, which can be taken once; None while some of it has not come, or when the caller is gone."""
        ...

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; the work is cancelled when the caller goes away, which raises Cancelled."""
        ...


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
        caller: None on a foreign server, which speaks ASGI alone.
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
    caller: Caller | None = None


class Answer(Struct, frozen=True):
    """What goes back; `headers` are added to those that every answer has."""

    body: bytes
    status: int = 200
    headers: list[tuple[bytes, bytes]] = []
    content_type: bytes = JSON


Endpoint = Callable[[Call], Awaitable[Answer]]


def header(call: Call, name: bytes) -> bytes | None:
    """The first value of a request header, by lower-case name."""
    for key, value in call.headers:
        if key == name:
            return value
    return None


async def send_answer(send: Send, call: Call, answer: Answer) -> None:
    """Send an answer, with the headers that every answer carries, as ASGI has it."""
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (VERSION_HEADER, printable(call.version)),
        (ID_HEADER, call.id.encode("ascii")),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def head_of(call: Call, answer: Answer) -> bytes:
    """The same head as it is written, without the empty line at its end."""
    head = _HEAD % (
        _STATUS_LINES[answer.status],
        answer.content_type,
        len(answer.body),
        printable(call.version),
        call.id.encode("ascii"),
    )
    return head + b"".join([b"%b: %b\r\n" % each for each in answer.headers]) if answer.headers else head


def closes(answer: Answer) -> bool:
    """Whether the answer says that the connection ends with it."""
    return bool(answer.headers) and (b"connection", b"close") in answer.headers


def printable(version: str | None) -> bytes:
    """A version as a header value: empty where no model is involved; never a byte that could end the header."""
    if not version:
        return b""
    return version.encode("ascii", "replace") if version.isprintable() else b"?"
