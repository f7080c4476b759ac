"""Whether a dead letter can be published again, and as what. Pure."""

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from headrace.dead_reader import Letter
from headrace.dead_rewrite import headers_without_deadline, with_version, without_deadline, written_anew
from headrace.dead_show import when_text
from producer_sdk.broker import Headers, Outgoing, TopicPartition
from producer_sdk.cloudevents import as_binary
from producer_sdk.dead_letters import Facts, original_headers, redriven_headers
from producer_sdk.errors import InvalidRequest
from producer_sdk.records import MAX_HEADER_BYTES, MAX_HEADERS, decode_record
from producer_sdk.wire import Form, Refused, Request, Undecodable


class Reason(StrEnum):
    """Why a letter stays where it is; each with what a person reads of it."""

    NO_LETTER = "no_letter"
    REDRIVEN = "redriven"
    TWIN = "twin"
    SHORTENED = "shortened"
    FOREIGN_ORIGIN = "foreign_origin"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    EXPIRED = "expired"
    UNCHANGEABLE = "unchangeable"


WORDS = {
    Reason.NO_LETTER: "without headrace-dead-* headers, so that nobody knows where they belong",
    Reason.REDRIVEN: "re-driven before (--again publishes them once more)",
    Reason.TWIN: "second letters of a record that has one already",
    Reason.SHORTENED: "shortened, since the whole record was too large to be kept",
    Reason.FOREIGN_ORIGIN: "from a topic that is no request topic of this model",
    Reason.UNREADABLE: "still no request that can be read",
    Reason.REFUSED: "no valid requests, which would be refused again",
    Reason.EXPIRED: "past their deadline (--drop-deadline publishes them without it)",
    Reason.UNCHANGEABLE: "impossible to change as asked",
}


class Skipped(Struct, frozen=True):
    """It stays where it is; `detail` says more about this one."""

    reason: Reason
    detail: str


class Going(Struct, frozen=True):
    """It goes back to where it was published first."""

    letter: Letter
    origin: TopicPartition
    outgoing: Outgoing


class Wishes(Struct, frozen=True):
    """What a person wants of the letters that match."""

    to_version: str | None = None
    drop_deadline: bool = False
    again: bool = False


def judge(
    letter: Letter, dead_topic: str, lanes: Collection[str], wishes: Wishes, *, redriven: bool, now_ms: int
) -> Going | Skipped:
    """What becomes of a letter. `lanes` are the request topics of the model, `redriven` is what notes say of it."""
    facts = letter.facts
    if facts is None:
        return Skipped(Reason.NO_LETTER, "it has no headrace-dead-* headers")
    if redriven and not wishes.again:
        return Skipped(Reason.REDRIVEN, "it was re-driven before")
    if facts.cut_from_bytes is not None:
        return Skipped(Reason.SHORTENED, f"{facts.cut_from_bytes} bytes were too large to be kept whole")
    if facts.topic not in lanes:
        return Skipped(Reason.FOREIGN_ORIGIN, f"it came from {facts.topic}")
    request = letter.read(now_ms)  # a relative deadline counts from the record that is published now
    if isinstance(request, Undecodable):
        return Skipped(Reason.UNREADABLE, request.message)
    if isinstance(request, Refused):
        return Skipped(Reason.REFUSED, request.error.message)
    expired = request.deadline_ms is not None and request.deadline_ms <= now_ms
    if expired and not wishes.drop_deadline:
        return Skipped(Reason.EXPIRED, f"its deadline was {when_text(request.deadline_ms or 0)}")
    return _going(letter, facts, request, dead_topic, wishes, expired, now_ms)


def _going(
    letter: Letter, facts: Facts, request: Request, dead_topic: str, wishes: Wishes, expired: bool, now_ms: int
) -> Going | Skipped:
    value = letter.record.value or b""
    headers: Headers = original_headers(letter.record.headers)
    if expired or wishes.to_version is not None:  # what is changed lies inside the event
        value, headers = as_binary(value, headers)
        if not value:
            return Skipped(Reason.UNCHANGEABLE, "what it asks for is stored elsewhere")
        try:
            value = _changed(value, request, wishes.to_version, now_ms, drop_deadline=expired)
        except InvalidRequest as err:
            return Skipped(Reason.UNCHANGEABLE, err.message)
    if expired:
        headers = headers_without_deadline(headers)
    headers = _marked(headers, f"{dead_topic}:{letter.place}", letter, request.id)
    try:
        read = decode_record(value, headers, "", now_ms)
    except Undecodable as err:
        return Skipped(Reason.UNCHANGEABLE, err.message)
    if isinstance(read, Refused):
        return Skipped(Reason.UNCHANGEABLE, read.error.message)
    if read.id != request.id:
        return Skipped(Reason.UNCHANGEABLE, f"it has no room for a header that keeps its id {request.id}")
    return Going(letter, TopicPartition(facts.topic, facts.partition), Outgoing(letter.record.key, value, headers))


def _changed(value: bytes, request: Request, version: str | None, now_ms: int, *, drop_deadline: bool) -> bytes:
    if not isinstance(request.form, Form):
        return written_anew(request, version, now_ms, drop_deadline=drop_deadline)
    if drop_deadline:
        value = without_deadline(value, request.form)
    return value if version is None else with_version(value, request.form, version)


def _marked(headers: Headers, place: str, letter: Letter, id: str) -> Headers:
    """With marks of the re-drive, as far as a record may have more headers; and with its id, where it is derived.

    A request without an id has one from where it lies, and would get another: its caller waits for the first.
    """
    kept = [*headers] if id != letter.fallback_id else [*headers, ("ce_id", id.encode())]
    marked = redriven_headers(kept, place)
    size = sum(len(name) + len(content or b"") for name, content in marked)
    return marked if len(marked) <= MAX_HEADERS and size <= MAX_HEADER_BYTES else kept
