"""What lies on a model's retry topic: the original record, and in headers where it came from and when it is due. Pure.

Key, value and the other headers are the original's, so that a request keeps its id, its deadline and its return
address however often it is tried again. Anybody may write to the topic: a record whose headers are not all there and
sound counts as a request of its own, which may run at once.
"""

from __future__ import annotations

import re

from msgspec import Struct

from producer_sdk.broker import Headers, Outgoing, Record
from producer_sdk.topics import Lane

from .work import Now, Work

LONGEST_DELAY_S = 86_400.0  # no record waits longer: a due time from a wrong clock must not hold up the others for ever
MAX_ATTEMPTS = 9999
RETRY_HEADERS = "headrace-retry-"
_LAST_WORDS = frozenset((*Lane, "retry"))
# Bounded, so that an id derived from the place is a valid one; -1 is Kafka's word for no timestamp.
_NUMBERS = {
    "partition": re.compile(r"[0-9]{1,5}", re.ASCII),
    "offset": re.compile(r"[0-9]{1,19}", re.ASCII),
    "timestamp": re.compile(r"[0-9]{1,15}|-1", re.ASCII),
    "attempts": re.compile(r"[0-9]{1,4}", re.ASCII),
    "due": re.compile(r"[0-9]{1,15}", re.ASCII),
}


class Origin(Struct, frozen=True, gc=False):
    """Where a request was published first. For a record that has not been on the retry topic: its own place.

    Attributes:
        topic, partition, offset: the place that its derived id and its lane follow from.
        timestamp_ms: of the first record, epoch milliseconds; relative deadlines count from it. -1 if it has none.
        attempts: failed attempts so far.
        due_ms: not to be run before, epoch milliseconds; None at once.
        headers: the original's, without those of the retry topic.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    attempts: int = 0
    due_ms: int | None = None
    headers: Headers = ()


def retry_record(work: Work, due_ms: int) -> Outgoing:
    """The record for the retry topic: `work`, with its attempts so far, not to be run before `due_ms`."""
    record, origin = work.record, origin_of(work.record)
    facts = {
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": origin.offset,
        "timestamp": origin.timestamp_ms,
        "attempts": min(work.attempts, MAX_ATTEMPTS),
        "due": due_ms,
    }
    ours = [(RETRY_HEADERS + name, str(fact).encode()) for name, fact in facts.items()]
    return Outgoing(record.key, record.value, [*_without_ours(origin.headers), *ours])


def origin_of(record: Record) -> Origin:
    """Where the request in a record was published first. Believes no header outside the retry topic."""
    topic = record.topic
    if not topic.endswith(".retry"):
        return Origin(topic, record.partition, record.offset, record.timestamp, 0, None, record.headers)
    headers = _without_ours(record.headers)
    try:
        facts = _read_facts(record)
    except (KeyError, ValueError):
        return Origin(topic, record.partition, record.offset, record.timestamp, 0, None, headers)
    numbers = {name: int(facts[name]) for name in _NUMBERS}
    timestamp_ms = numbers["timestamp"]
    return Origin(
        facts["topic"],
        numbers["partition"],
        numbers["offset"],
        # Where the first record had none, relative deadlines count from the first retry: not anew from each.
        record.timestamp if timestamp_ms < 0 else timestamp_ms,
        numbers["attempts"],
        numbers["due"],
        headers,
    )


def due_of(record: Record, now: Now) -> float | None:
    """When a record of the retry topic may run, in monotonic seconds; None where it may at once."""
    due_ms = origin_of(record).due_ms
    if due_ms is None or due_ms <= now.epoch_ms:
        return None
    written_ms = record.timestamp if 0 <= record.timestamp < now.epoch_ms else now.epoch_ms
    wait_ms = min(due_ms, written_ms + int(LONGEST_DELAY_S * 1000)) - now.epoch_ms
    if record.timestamp > now.epoch_ms:  # written by a clock ahead of this one: no longer than its pause from now on
        wait_ms = min(wait_ms, due_ms - record.timestamp)
    return now.monotonic + wait_ms / 1000 if wait_ms > 0 else None


def _without_ours(headers: Headers) -> Headers:
    return [(name, content) for name, content in headers if not name.startswith(RETRY_HEADERS)]


def _read_facts(record: Record) -> dict[str, str]:
    """The headers of ours, each there once and sound; raises KeyError or ValueError where they are not."""
    facts: dict[str, str] = {}
    for name, content in record.headers:
        if name.startswith(RETRY_HEADERS):
            if name.removeprefix(RETRY_HEADERS) in facts:
                raise ValueError(name)
            facts[name.removeprefix(RETRY_HEADERS)] = (content or b"").decode("ascii")
    for name, pattern in _NUMBERS.items():
        if not pattern.fullmatch(facts[name]):
            raise ValueError(name)
    model, _, last = facts["topic"].rpartition(".")
    if last not in _LAST_WORDS or model != record.topic.removesuffix(".retry"):
        raise ValueError("topic")
    return facts
