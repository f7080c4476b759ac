"""What headers of a dead letter say: where the record came from, and why it is there. Pure.

A dead letter is the record itself, key, headers and bytes, with these headers added. docs/dead-letters.md explains
them, docs/wire.md states them for other languages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from .broker import Headers, Outgoing

PREFIX = "headrace-dead-"
REDRIVEN_HEADER = "headrace-redriven"  # on a request that was published again: the place of its dead letter
REDRIVES_HEADER = "headrace-redrives"  # and how often that has happened to it
NOTE_HEADER = "headrace-redriven-offsets"  # on a note among the dead letters: which of its partition were re-driven

MAX_FACTS_BYTES = 4096
MAX_MESSAGE_CHARS = 1000
KEPT_BYTES = 1024  # of the value, and of a key, of a dead letter that is itself too large
_MAX_TEXT_BYTES = 256  # of each fact but the message
_CUT = "cut-from-bytes"
_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?", re.ASCII)


class Facts(Struct, frozen=True):
    """What is known of a record that failed.

    Attributes:
        topic, partition, offset: where it was published first.
        timestamp_ms: when, epoch milliseconds; -1 if it does not say.
        group: of the workers that gave it up.
        attempts: that failed; 0 for a record that never ran.
        code, message: of the error.
        cut_from_bytes: size of the whole value, where the letter holds only its first bytes.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    group: str = ""
    attempts: int = 0
    code: str = ""
    message: str = ""
    cut_from_bytes: int | None = None

    @property
    def origin(self) -> tuple[str, int, int, int]:
        """What tells records apart, also those of a topic that was made anew."""
        return self.topic, self.partition, self.offset, self.timestamp_ms


def headers(facts: Facts, original: Headers) -> list[tuple[str, bytes]]:
    """The headers of a dead letter: the record's own, then the facts, which replace those of an earlier death.

    The facts never take more than `MAX_FACTS_BYTES`, names included: the message is cut to what is left.
    """
    texts = {
        "topic": facts.topic,
        "partition": str(facts.partition),
        "offset": str(facts.offset),
        "timestamp": str(facts.timestamp_ms),
        "group": facts.group,
        "attempts": str(facts.attempts),
        "code": facts.code,
    }
    if facts.cut_from_bytes is not None:
        texts[_CUT] = str(facts.cut_from_bytes)
    ours = [(PREFIX + name, _cut(text, _MAX_TEXT_BYTES)) for name, text in texts.items()]
    name = PREFIX + "message"
    room = MAX_FACTS_BYTES - len(name) - sum(len(name) + len(content) for name, content in ours)
    ours.append((name, _cut(facts.message[:MAX_MESSAGE_CHARS], room)))
    return [*original_headers(original), *ours]


def original_headers(letter: Headers) -> list[tuple[str, bytes]]:
    """The headers that the record had when it was published first, or last re-driven."""
    return [(name, content) for name, content in letter if not name.startswith(PREFIX)]


def read_facts(letter: Headers) -> Facts | None:
    """The facts that the headers of a record state; None when they do not say where it came from: no dead letter."""
    texts = {
        name.removeprefix(PREFIX): (content or b"").decode("utf-8", "replace")
        for name, content in letter
        if name.startswith(PREFIX)
    }
    partition, offset = _number(texts.get("partition")), _number(texts.get("offset"))
    if not texts.get("topic") or partition is None or offset is None or partition < 0 or offset < 0:
        return None
    timestamp_ms, attempts = _number(texts.get("timestamp")), _number(texts.get("attempts"))
    return Facts(
        texts["topic"],
        partition,
        offset,
        -1 if timestamp_ms is None else timestamp_ms,
        texts.get("group", ""),
        attempts or 0,
        texts.get("code", ""),
        texts.get("message", ""),
        _number(texts.get(_CUT)),
    )


def shortened(letter: Outgoing) -> Outgoing:
    """What is kept of a dead letter that the broker finds too large: its facts, a short key and the first bytes."""
    key, value = letter.key, letter.value or b""
    facts = [(name, content) for name, content in letter.headers if name.startswith(PREFIX)]
    kept_key = key if key is not None and len(key) <= KEPT_BYTES else None
    return Outgoing(kept_key, value[:KEPT_BYTES], [*facts, (PREFIX + _CUT, str(len(value)).encode())])


def redrives(record: Headers) -> int:
    """How often a request was published again from a dead letter."""
    texts = [(content or b"").decode("utf-8", "replace") for name, content in record if name == REDRIVES_HEADER]
    return max(0, _number(texts[-1]) or 0) if texts else 0


def is_redriven(headers: Headers) -> bool:
    """Whether the record is a dead letter that somebody wants to be tried again."""
    return any(name == REDRIVEN_HEADER for name, _ in headers)


def redriven_headers(letter: Headers, place: str) -> list[tuple[str, bytes]]:
    """The headers of a request that is published again from its dead letter at `place`."""
    ours = {REDRIVEN_HEADER: place.encode(), REDRIVES_HEADER: str(redrives(letter) + 1).encode()}
    kept = [(name, content) for name, content in original_headers(letter) if name not in ours]
    return [*kept, *ours.items()]


def note(offsets: Sequence[int]) -> Outgoing:
    """A record for a dead topic's partition that says which letters of it were re-driven, as `3-7,9`.

    The dead topic itself remembers: what is noted there is kept exactly as long as the letters are.
    """
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and offset <= ranges[-1][1] + 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return Outgoing(None, b"", [(NOTE_HEADER, text.encode())])


def read_note(record: Headers) -> list[range] | None:
    """The offsets that a note speaks of; None for any other record."""
    text = next((content for name, content in record if name == NOTE_HEADER), None)
    if text is None or read_facts(record) is not None:  # a letter may carry any header that its record had
        return None
    found = [_RANGE.fullmatch(part) for part in text.decode("utf-8", "replace").split(",")]
    return [range(int(each[1]), int(each[2] or each[1]) + 1) for each in found if each]


def _cut(text: str, nbytes: int) -> bytes:
    """As UTF-8, with "?" for lone surrogates, of at most so many bytes, whole characters."""
    content = text.encode("utf-8", "replace")
    return content if len(content) <= nbytes else content[:nbytes].decode("utf-8", "ignore").encode()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None
