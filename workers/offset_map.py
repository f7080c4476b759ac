"""The text committed beside an offset: what is completed above it, failed attempts, what is being tried. Pure.

It is for the partition's next owner, and tools read it (docs/wire.md has the layout). Offsets never polled count as
completed. It is a hint that may be missing or somebody else's: then work is done twice, never lost.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from producer_sdk.broker import TopicPartition

from .offset_codecs import (
    MAX_INCOMPLETE,
    bitset_bytes,
    read_bitset,
    read_number,
    read_offsets,
    read_runs,
    run_lengths,
    write_bitset,
    write_number,
    write_offsets,
    write_runs,
)

KAFKA_LIMIT_BYTES = 4096  # `offset.metadata.max.bytes`, unless an operator chose another
LIMIT_BYTES = KAFKA_LIMIT_BYTES - 4  # confluent-kafka commits a byte more, and base64 comes in fours
SOFT_LIMIT_BYTES = 3072

HEAD = b"\x86\xb1"  # the magic byte, then 0xb0 + the version; so each text begins with "hr"
CHECKSUM_BYTES = 4
BODY_BYTES = LIMIT_BYTES // 4 * 3 - len(HEAD) - 1 - CHECKSUM_BYTES  # base64 makes 4 bytes of 3
NO_MAP, BITSET, RUNS = b"\x00", b"\x01", b"\x02"
NOTHING = NO_MAP + b"\x00\x00"  # the body without a map, attempts or trying


class Mark(Enum):
    """How the assignment that wrote the text has ended."""

    OPEN = 1  # not in order: it still goes on, or its worker died
    CLOSED = 2  # in order


class Remembered(Struct, frozen=True):
    """What the text says.

    Attributes:
        mark: None: nothing, or foreign.
        highest: highest completed offset at or above the base; None: none.
        incomplete: offsets from the base to `highest` that are not completed, ascending.
        attempts: failed attempts, at least 1, by the offset that they are charged to.
        trying: offsets that were being tried under suspicion when this was written.
    """

    mark: Mark | None = None
    highest: int | None = None
    incomplete: tuple[int, ...] = ()
    attempts: Mapping[int, int] = {}
    trying: frozenset[int] = frozenset()


class Written(NamedTuple):
    """The text, and whether the map is in it: False when it did not fit."""

    text: str
    whole: bool


def place_of(partition: TopicPartition) -> bytes:
    """What ties a text to its partition."""
    return f"{partition.topic}:{partition.partition}".encode()


def encode(base: int, remembered: Remembered, place: bytes = b"") -> str:
    """The text to commit beside `base` of a `place`: ASCII, at most LIMIT_BYTES; empty without a mark."""
    return write(base, remembered, place).text


def write(base: int, remembered: Remembered, place: bytes = b"") -> Written:
    """As `encode`. Past the limit the map goes; of too many attempts and trying those with the highest counts stay."""
    mark = remembered.mark
    if mark is None:
        return Written("", whole=True)
    if remembered.highest is None and not remembered.attempts and not remembered.trying:
        return _BARE[mark]
    facts = _facts_that_fit(base, remembered.attempts, remembered.trying)
    body = _map(base, remembered) + facts
    whole = len(facts) < len(body) <= BODY_BYTES
    if not whole:
        body = NO_MAP + facts
    return Written(
        _BARE[mark].text if body == NOTHING else _text(mark, _checksum(place, base, mark, body) + body), whole
    )


def decode(base: int, text: str, place: bytes = b"") -> Remembered:
    """What was written beside `base`; nothing for text that is empty, foreign, damaged, of another version or place."""
    try:
        return _read(place, base, text)
    except (ValueError, IndexError, OverflowError):
        return Remembered()


def _read(place: bytes, base: int, text: str) -> Remembered:
    if len(text) > KAFKA_LIMIT_BYTES:
        raise ValueError("longer than any of ours")
    payload = a2b_base64(text, strict_mode=True)
    head, mark, rest = payload[: len(HEAD)], Mark(payload[len(HEAD)]), payload[len(HEAD) + 1 :]
    if head != HEAD:
        raise ValueError("not ours, or of another version")
    if not rest:
        return Remembered(mark)
    checksum, body = rest[:CHECKSUM_BYTES], rest[CHECKSUM_BYTES:]
    if checksum != _checksum(place, base, mark, body):
        raise ValueError("damaged, or written beside another offset")
    data = iter(body)
    highest, incomplete = _read_map(base, data)
    attempts = {offset: read_number(data) for offset in read_offsets(base, data)}
    trying = frozenset(read_offsets(base, data))
    if next(data, None) is not None:
        raise ValueError("more follows than there should")
    return Remembered(mark, highest, incomplete, attempts, trying)


def _text(mark: Mark, rest: bytes) -> str:
    return b2a_base64(HEAD + bytes([mark.value]) + rest, newline=False).decode("ascii")


_BARE = {mark: Written(_text(mark, b""), whole=True) for mark in Mark}


def _checksum(place: bytes, base: int, mark: Mark, body: bytes) -> bytes:
    """Ties the body to its place: tools that mirror clusters copy the text beside an offset that they translated."""
    return crc32(place + base.to_bytes(8, "big") + bytes([mark.value]) + body).to_bytes(CHECKSUM_BYTES, "big")


def _map(base: int, remembered: Remembered) -> bytes:
    """The number of a codec, then what it writes, in the shorter of both; empty when it would not be read back."""
    highest, incomplete = remembered.highest, remembered.incomplete
    if highest is None:
        return NO_MAP
    if len(incomplete) > MAX_INCOMPLETE:
        return b""
    lengths = run_lengths(base, highest, incomplete)
    runs = write_runs(lengths) if len(lengths) <= bitset_bytes(base, highest) else None  # each takes a byte or more
    if runs is None or bitset_bytes(base, highest) < len(runs):
        return BITSET + write_bitset(base, highest, incomplete)
    return RUNS + runs


def _read_map(base: int, data: Iterator[int]) -> tuple[int | None, tuple[int, ...]]:
    codec = bytes(islice(data, 1))
    if codec == BITSET:
        return read_bitset(base, data)
    if codec == RUNS:
        return read_runs(base, data)
    if codec == NO_MAP:
        return None, ()
    raise ValueError("a codec that this version does not have")


def _facts(base: int, attempts: Mapping[int, int], trying: Set[int]) -> bytes:
    """Offsets with attempts, then their counts, then the offsets that are tried."""
    charged = sorted(attempts)
    counts = b"".join(write_number(attempts[offset]) for offset in charged)
    return write_offsets(base, charged) + counts + write_offsets(base, sorted(trying))


def _facts_that_fit(base: int, attempts: Mapping[int, int], trying: Set[int]) -> bytes:
    room = BODY_BYTES - len(NO_MAP)
    everything = _facts(base, attempts, trying)
    if len(everything) <= room:
        return everything
    ranked = sorted(attempts.keys() | trying, key=lambda offset: (-attempts.get(offset, 0), offset))

    def of_the_first(count: int) -> bytes:
        kept = set(ranked[:count])
        return _facts(base, {offset: attempts[offset] for offset in kept & attempts.keys()}, trying & kept)

    return of_the_first(bisect_right(range(len(ranked)), room, key=lambda count: len(of_the_first(count))) - 1)
