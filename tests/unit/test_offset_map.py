"""The text beside a committed offset: what it remembers comes back, it always fits, and foreign text says nothing."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.offset_codecs import (
    bitset_bytes,
    read_bitset,
    read_runs,
    run_lengths,
    write_bitset,
    write_number,
    write_runs,
)
from workers.offset_map import LIMIT_BYTES, Mark, Remembered, decode, encode, write

NOTHING = Remembered()
BASES = st.one_of(st.integers(0, 2**62), st.integers(2**62 - 10, 2**62 + 10), st.integers(0, 300))
MARKS = st.sampled_from(Mark)


def from_runs(base: int, pairs: Sequence[tuple[int, int]], **facts: object) -> Remembered:
    """What alternate runs of incomplete and completed offsets leave to remember."""
    incomplete: list[int] = []
    at = base
    for waiting, completed in pairs:
        incomplete += range(at, at + waiting)
        at += waiting + completed
    return Remembered(Mark.OPEN, at - 1 if pairs else None, tuple(incomplete), **facts)  # type: ignore[arg-type]


def written_by_hand(base: int, body: bytes, *, head: bytes = b"\x86\xb1\x01") -> str:
    """The layout of docs/wire.md, without the code under test."""
    checksum = zlib.crc32(base.to_bytes(8, "big") + head[-1:] + body).to_bytes(4, "big")
    return b64encode(head + checksum + body).decode()


@st.composite
def remembered(draw: st.DrawFn, base: int) -> Remembered:
    dense = st.tuples(st.integers(1, 5), st.integers(1, 5))
    sparse = st.tuples(st.integers(1, 300), st.integers(1, 2**40))
    pairs = draw(st.lists(st.one_of(dense, sparse), max_size=40))
    above = st.integers(0, 2**50).map(lambda distance: base + distance)
    attempts = draw(st.dictionaries(above, st.integers(1, 300), max_size=20))
    trying = draw(st.frozensets(above, max_size=20))
    made = from_runs(base, pairs, attempts=attempts, trying=trying)
    return Remembered(draw(MARKS), made.highest, made.incomplete, attempts, trying)


@given(st.data(), BASES)
def test_what_is_remembered_comes_back(data: st.DataObject, base: int) -> None:
    given = data.draw(remembered(base))
    text, whole = write(base, given)
    assert whole
    assert decode(base, text) == given
    assert len(text) <= LIMIT_BYTES
    assert text.isascii()


@pytest.mark.parametrize("base", [0, 1, 2**31 - 1, 2**32, 2**62 - 1, 2**62])
@pytest.mark.parametrize(
    "pairs", [[(1, 1)] * 99, [(1, 1)], [(1, 7)], [(1, 8)], [(9, 1)], [(1, 2**61)], [(200, 3), (1, 70000)]]
)
def test_both_codecs_bring_back_what_they_were_given(base: int, pairs: list[tuple[int, int]]) -> None:
    given = from_runs(base, pairs)
    assert given.highest is not None
    if given.highest - base < 10_000:
        bits = iter(write_bitset(base, given.highest, given.incomplete))
        assert (*read_bitset(base, bits), list(bits)) == (given.highest, given.incomplete, [])
    runs = iter(write_runs(run_lengths(base, given.highest, given.incomplete)))
    assert (*read_runs(base, runs), list(runs)) == (given.highest, given.incomplete, [])


@pytest.mark.parametrize(
    ("pairs", "codec"), [([(1, 1)] * 50, 1), ([(40, 400)], 2), ([(1, 2**40), (1, 1)], 2), ([(3, 3)] * 8, 1)]
)
def test_the_shorter_codec_is_taken(pairs: list[tuple[int, int]], codec: int) -> None:
    given = from_runs(7, pairs)
    assert given.highest is not None
    assert b64decode(encode(7, given))[7] == codec
    runs = len(write_runs(run_lengths(7, given.highest, given.incomplete)))
    assert (bitset_bytes(7, given.highest) < runs) == (codec == 1)


@given(BASES)
def test_a_mark_alone_is_four_characters_whatever_the_base(base: int) -> None:
    assert encode(base, Remembered(Mark.OPEN)) == "hrEB"
    assert encode(base, Remembered(Mark.CLOSED)) == "hrEC"
    assert decode(base, "hrEC") == Remembered(Mark.CLOSED)


def test_the_layout_is_what_the_docs_say() -> None:
    given = Remembered(Mark.OPEN, 1009, (1000, 1003), {1000: 2, 1400: 1}, frozenset({1000}))
    body = bytes([2, 2, 1, 2, 1, 6]) + bytes([2, 0, 0x90, 0x03, 2, 1]) + bytes([1, 0])
    bits = bytes([1, 2, 0b11110110, 0b11])
    assert len(bits) < len(body[:6])
    assert encode(1000, given) == written_by_hand(1000, bits + body[6:])
    assert decode(1000, written_by_hand(1000, body)) == given


@given(st.integers(0, 12_000), st.integers(1, 9), st.integers(1, 9))
def test_the_text_never_passes_the_limit_and_only_the_map_goes(count: int, waiting: int, completed: int) -> None:
    facts = {"attempts": {10: 3, 10**9: 1}, "trying": frozenset({10, 11})}
    given = from_runs(10, [(waiting, completed)] * count, **facts)
    text, whole = write(10, given)
    assert len(text) <= LIMIT_BYTES
    assert decode(10, text) == (given if whole else Remembered(Mark.OPEN, **facts))  # type: ignore[arg-type]


def test_the_map_is_kept_up_to_the_last_byte_of_the_limit() -> None:
    bits_bytes = LIMIT_BYTES // 4 * 3 - (2 + 1 + 4 + 1 + 2 + 2)  # all but the bits
    fits, too_many = from_runs(5, [(1, 1)] * 4 * bits_bytes), from_runs(5, [(1, 1)] * (4 * bits_bytes + 1))
    assert len(encode(5, fits)) == LIMIT_BYTES
    assert decode(5, encode(5, fits)) == fits
    assert write(5, too_many) == ("hrEB", False)


def test_of_too_many_facts_those_with_the_highest_counts_stay() -> None:
    attempts = {offset * 1000: 1 + offset % 7 for offset in range(3000)}
    trying = frozenset(range(0, 3_000_000, 1500))
    text = encode(0, Remembered(Mark.OPEN, 400, tuple(range(0, 400, 2)), attempts, trying))
    kept = decode(0, text)
    assert LIMIT_BYTES - 16 < len(text) <= LIMIT_BYTES
    assert kept.highest is None
    assert kept.attempts.items() < attempts.items()
    lost = attempts.keys() - kept.attempts.keys()
    assert max(attempts[offset] for offset in lost) <= min(kept.attempts.values())


@given(st.text(max_size=60))
def test_foreign_text_says_nothing(text: str) -> None:
    assert decode(7, text) == NOTHING


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x86\xb1", b"\x86\xb1\x01", b"\x86\xb1\x02", b"\x01", b"\x86"]))
def test_foreign_bytes_say_nothing_more_than_a_mark(data: bytes, head: bytes) -> None:
    payload = head + data
    said = decode(7, b64encode(payload).decode())
    assert said in (NOTHING, Remembered(Mark.OPEN), Remembered(Mark.CLOSED))
    assert (said == NOTHING) or payload in (b"\x86\xb1\x01", b"\x86\xb1\x02")


@given(st.binary(max_size=60), st.integers(-5, 2**65))
def test_no_body_is_absurd_enough_to_raise(body: bytes, base: int) -> None:
    checksummed = written_by_hand(base, body) if 0 <= base < 2**64 else "hrEB" + b64encode(body).decode()
    said = decode(base, checksummed)
    assert said.highest is None or said.highest < 2**63
    assert len(said.incomplete) <= 100_000


GOOD = from_runs(2**40, [(1, 3), (2, 900)], attempts={2**40: 2}, trying=frozenset({2**40, 2**40 + 5}))


def test_cut_off_text_says_nothing() -> None:
    text = encode(2**40, GOOD)
    assert decode(2**40, text) == GOOD
    assert [decode(2**40, text[:length]) for length in range(len(text)) if length != 4] == [NOTHING] * (len(text) - 1)


def test_a_damaged_bit_makes_all_of_it_say_nothing() -> None:
    payload = b64decode(encode(2**40, GOOD))
    for place in range(8 * len(payload)):
        damaged = bytearray(payload)
        damaged[place >> 3] ^= 1 << (place & 7)
        assert decode(2**40, b64encode(damaged).decode()) == NOTHING


def test_text_beside_another_offset_than_it_was_written_for_says_nothing() -> None:
    assert decode(2**40 + 1, encode(2**40, GOOD)) == NOTHING


def test_a_newer_version_says_nothing() -> None:
    assert decode(0, written_by_hand(0, bytes(3), head=b"\x86\xb2\x01")) == NOTHING
    assert decode(0, b64encode(b"\x86\xb2\x01").decode()) == NOTHING
    assert decode(0, b64encode(b"\x86\xb1\x03").decode()) == NOTHING


TEN_MILLION = write_number(10_000_000)


@pytest.mark.parametrize(
    "body",
    [
        b"\x02\x01" + TEN_MILLION + b"\x01\x00\x00",
        b"\x02" + TEN_MILLION + b"\x01\x01" * 50,
        b"\x02\x02\x01" + write_number(2**62) + b"\x01" + write_number(2**62) + b"\x00\x00",
        b"\x02\x01\x01\x00\x00\x00",
        b"\x02\x02\x01\x01\x00\x01\x00\x00",
        b"\x02\x00\x00\x00",
        b"\x01" + TEN_MILLION + b"\xff\x00\x00",
        b"\x01\x02\xff\x00\x00\x00",
        b"\x01\x00\x00\x00",
        b"\x03\x00\x00",
        b"\x00" + TEN_MILLION + b"\x00\x00",
        b"\x00\x00" + TEN_MILLION,
        b"\x00\x01" + write_number(2**62) + b"\x01\x00",
        b"\x00\x00\x00\x00",
        b"\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00",
        b"",
    ],
)
def test_absurd_claims_say_nothing(body: bytes) -> None:
    assert decode(2**62, written_by_hand(2**62, body)) == NOTHING


def test_runs_of_what_a_backlog_may_hold_are_read_and_written() -> None:
    assert decode(0, encode(0, from_runs(0, [(100_000, 1)]))).incomplete == tuple(range(100_000))
    assert write(0, from_runs(0, [(100_001, 1)])) == ("hrEB", False)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2))
def test_numbers_grow_no_shorter_as_they_grow(numbers: list[int]) -> None:
    shorter, longer = (len(write_number(number)) for number in sorted(numbers))
    assert shorter <= longer <= 9
    assert all(byte >= 0x80 for byte, _ in pairwise(write_number(numbers[0])))
