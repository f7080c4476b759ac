"""What headers of a dead letter say is read as it was written, stays small, and is never taken on trust."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.broker import Outgoing
from producer_sdk.dead_letters import (
    MAX_FACTS_BYTES,
    NOTE_HEADER,
    Facts,
    headers,
    note,
    original_headers,
    read_facts,
    read_note,
    redriven_headers,
    redrives,
    shortened,
)

FACTS = Facts("p.m.async", 3, 7, 123, "p.m", 5, "RUNNER_CRASHED", "the runner died")
ORIGINAL = [("a", b"b"), ("a", b"\xff"), ("traceparent", b"00-1")]


def size(letter: list[tuple[str, bytes]]) -> int:
    return sum(len(name) + len(content) for name, content in letter)


def test_facts_are_read_as_they_were_written_and_the_record_has_its_headers_back() -> None:
    letter = headers(FACTS, ORIGINAL)
    assert read_facts(letter) == FACTS
    assert original_headers(letter) == ORIGINAL


def test_a_second_death_replaces_the_facts_of_the_first() -> None:
    again = Facts("p.m.bulk", 0, 9, 456, "p.m", 1, "INTERNAL", "why")
    letter = headers(again, headers(FACTS, ORIGINAL))
    assert (read_facts(letter), size(letter)) == (again, size(headers(again, ORIGINAL)))


@given(st.text(), st.text(), st.text(), st.integers(0, 2**63 - 1))
def test_facts_of_any_text_can_be_written_and_never_take_more_than_four_kibibytes(
    topic: str, code: str, message: str, number: int
) -> None:
    facts = Facts(topic, number, number, number, topic, number, code * 50, message * 200, number)
    assert size(headers(facts, ())) <= MAX_FACTS_BYTES


def test_a_message_is_cut_between_characters() -> None:
    facts = read_facts(headers(Facts("t", 0, 0, message="\U0001f600" * 2000), ()))
    assert facts is not None
    assert 900 < len(facts.message) <= 1000
    assert set(facts.message) == {"\U0001f600"}


@pytest.mark.parametrize("missing", ["topic", "partition", "offset"])
def test_a_record_that_does_not_say_where_it_came_from_is_no_dead_letter(missing: str) -> None:
    letter = [each for each in headers(FACTS, ORIGINAL) if each[0] != f"headrace-dead-{missing}"]
    assert (read_facts(letter), read_facts(())) == (None, None)


@pytest.mark.parametrize("number", [b"", b"x", b"-1", b"1.0", b"9" * 5000, "\u0661".encode(), b"\xff"])
def test_a_place_that_is_no_number_is_no_place(number: bytes) -> None:
    assert read_facts([*headers(FACTS, ()), ("headrace-dead-offset", number)]) is None


def test_other_facts_may_be_missing_or_broken() -> None:
    letter = [("headrace-dead-topic", b"t"), ("headrace-dead-partition", b"1"), ("headrace-dead-offset", b"2"),
              ("headrace-dead-attempts", b"many"), ("headrace-dead-code", b"\xff")]  # fmt: skip
    assert read_facts(letter) == Facts("t", 1, 2, code="\ufffd")


def test_a_shortened_letter_says_how_long_it_was() -> None:
    short = shortened(Outgoing(b"k" * 2000, b"v" * 5000, headers(FACTS, [("large", b"h" * 5000)])))
    assert short[:2] == (None, b"v" * 1024)
    facts = read_facts(short.headers)
    assert facts is not None
    assert (facts.cut_from_bytes, facts.code, original_headers(short.headers)) == (5000, "RUNNER_CRASHED", [])


def test_re_drives_are_counted_and_take_no_more_room_each_time() -> None:
    letter, sizes = headers(FACTS, ORIGINAL), []
    for place in range(9):
        published = redriven_headers(letter, f"p.m.dead:0:{place}")
        letter = headers(FACTS, published)
        sizes.append(size(letter))
    assert (redrives(letter), sizes[0]) == (9, sizes[-1])
    assert dict(letter)["headrace-redriven"] == b"p.m.dead:0:8"


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_note_names_exactly_its_offsets(offsets: set[int]) -> None:
    ranges = read_note(note(list(offsets)).headers)
    assert ranges is not None
    assert [offset for each in ranges for offset in each] == sorted(offsets)


def test_a_letter_is_never_taken_for_a_note_whatever_headers_its_record_had() -> None:
    assert read_note(headers(FACTS, [(NOTE_HEADER, b"0-9")])) is None
    assert read_note([(NOTE_HEADER, b"3,x,-5,9-7,1-2-3")]) == [range(3, 4), range(9, 8)]
