"""Names: model -> topics and group, ids, return addresses. Pure; safe as Kafka names, S3 names and log fields."""

from __future__ import annotations

import binascii
import os
import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from .errors import InvalidRequest


class Lane(StrEnum):
    """How urgent a request is; each lane is a topic of its own."""

    INTERACTIVE = "interactive"  # somebody waits for the reply
    ASYNC = "async"  # the default of publish: soon, nobody waits
    BULK = "bulk"  # scoring jobs: only throughput counts


MODEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
PREFIX = re.compile(r"[A-Za-z0-9_-]{1,24}", re.ASCII)
REQUEST_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:-]{1,128}", re.ASCII)  # "." and ".." are no names in stores
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}", re.ASCII)
_ID_CHARS = 22
_IDS_AT_ONCE = 256  # their characters fill whole groups of three random bytes
_random: list[str] = []
if hasattr(os, "register_at_fork"):  # else nothing forks
    os.register_at_fork(after_in_child=_random.clear)  # or parent and child would give the same ids
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_MOST_BITS = 14_000  # of a number that Python writes in decimal: the time it takes grows with the square
_NEVER_REPLIES = frozenset((*Lane, "retry", "dead"))


class ReplyTo(NamedTuple):
    """A return address: a topic, and a partition where the caller reads just one."""

    topic: str
    partition: int | None

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"


class Topics:
    """All names under one prefix.

    Raises:
        ValueError: the prefix has other characters than `A-Z a-z 0-9 _ -` or is longer than 24.
    """

    def __init__(self, prefix: str = "headrace") -> None:
        if not PREFIX.fullmatch(prefix):
            raise ValueError(f"topic prefix {prefix!r}: use 1 to 24 of A-Z a-z 0-9 _ -")
        self.prefix = prefix
        self.replies = f"{prefix}.replies"
        self.control = f"{prefix}.control"
        self.cancels = f"{prefix}.cancels"
        self.events = f"{prefix}.events"

    def requests(self, model: str, lane: str) -> str:
        return f"{self.prefix}.{model}.{lane}"

    def lanes(self, model: str) -> dict[str, Lane]:
        """Request topic -> lane, for each lane of the model."""
        return {self.requests(model, lane): lane for lane in Lane}

    def group(self, model: str) -> str:
        return f"{self.prefix}.{model}"

    def results(self, model: str) -> str:
        return f"{self.prefix}.{model}.results"

    def retry(self, model: str) -> str:
        return f"{self.prefix}.{model}.retry"

    def dead(self, model: str) -> str:
        return f"{self.prefix}.{model}.dead"

    def may_reply_to(self, topic: str) -> bool:
        """Whether a reply may go there: under the prefix, and not a topic that headrace reads."""
        if not topic.startswith(f"{self.prefix}."):
            return False
        last = topic.rpartition(".")[2]
        return topic not in (self.control, self.cancels, self.events) and last not in _NEVER_REPLIES


def new_id() -> str:
    """A fresh request id: 22 characters, 132 random bits."""
    try:
        return _random.pop()
    except IndexError:  # one call of the system for many
        content = binascii.b2a_base64(os.urandom(_IDS_AT_ONCE * _ID_CHARS * 3 // 4), newline=False)
        text = content.translate(_TO_URL_SAFE).decode("ascii")
        ids = [text[at : at + _ID_CHARS] for at in range(0, len(text), _ID_CHARS)]
        id = ids.pop()
        _random.extend(ids)
        return id


def derived_id(topic: str, partition: int, offset: int) -> str:
    """The id of a record that carries none: stable over redelivery."""
    return f"{topic}:{partition}:{offset}"


def shown(value: object) -> str:
    """A value from outside for a message: short, on one line, and without walking into lists or maps."""
    if isinstance(value, str):
        return repr(_cut(value))
    if isinstance(value, int):
        return _cut(repr(value) if value.bit_length() <= _MOST_BITS else hex(value))
    return repr(value) if value is None or isinstance(value, float) else f"of type {type(value).__name__}"


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "..."


def check_id(id: object) -> str:
    """The id itself.

    Raises:
        InvalidRequest: it is not 1 to 128 of `A-Z a-z 0-9 . _ : -`, or it is `.` or `..`.
    """
    if not isinstance(id, str) or not REQUEST_ID.fullmatch(id):
        raise InvalidRequest(f"id {shown(id)} is not valid: use 1 to 128 of A-Z a-z 0-9 . _ : -")
    return id


def check_model_name(model: object) -> str:
    """The name itself.

    Raises:
        InvalidRequest: it is not 1 to 64 of `A-Z a-z 0-9 _ -`.
    """
    if not isinstance(model, str) or not MODEL_NAME.fullmatch(model):
        raise InvalidRequest(f"model name {shown(model)} is not valid: use 1 to 64 of A-Z a-z 0-9 _ - (no dots)")
    return model


@lru_cache(maxsize=4096)
def parse_reply_to(text: str) -> ReplyTo:
    """`topic` or `topic:partition` as an address.

    Raises:
        InvalidRequest: neither form, or the partition is not a number from 0 to 99999.
    """
    topic, colon, partition = text.partition(":")
    digits = partition.isascii() and partition.isdigit() and len(partition) <= 5
    if not _TOPIC.fullmatch(topic) or (colon and not digits):
        raise InvalidRequest(f"reply_to {shown(text)} is not valid: write 'topic' or 'topic:partition'")
    return ReplyTo(topic, int(partition) if colon else None)
