"""A record of the retry topic is the original with its place, its attempts and its time; whatever else lies there."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.broker import Headers, Outgoing, Record, TopicPartition
from producer_sdk.topics import REQUEST_ID, Lane, Topics, derived_id
from producer_sdk.wire import Request
from workers.commit import PartitionLedger
from workers.retry_records import LONGEST_DELAY_S, Origin, due_of, origin_of, retry_record
from workers.work import Now, Source, Work

NOW = Now(monotonic=100.0, epoch_ms=1_000_000)
SOURCE = Source(PartitionLedger(TopicPartition("p.m.bulk", 3)), 7)
WRITTEN_MS = 999_500


class ARecord(NamedTuple):
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: Headers = ()
    timestamp: int = 990_000
    topic: str = "p.m.bulk"
    partition: int = 3
    offset: int = 7


def work_of(record: Record, attempts: int = 1) -> Work:
    return Work(Request("a", {}), SOURCE, record, Lane.BULK, 1, 8, (), 100.0, None, attempts)


def published(outgoing: Outgoing, timestamp: int = WRITTEN_MS, **place: object) -> ARecord:
    """What a reader of the retry topic gets."""
    where = {"topic": "p.m.retry", "partition": 0, "offset": 41} | place
    return ARecord(outgoing.key, outgoing.value, outgoing.headers, timestamp, **where)  # type: ignore[arg-type]


def with_headers(*changed: tuple[str, bytes | None], topic: str = "p.m.retry") -> ARecord:
    """A sound retry record with some headers of ours replaced; None leaves one out."""
    headers = dict(retry_record(work_of(ARecord()), 2_000_000).headers)
    for name, content in changed:
        headers.pop(f"headrace-retry-{name}")
        if content is not None:
            headers[f"headrace-retry-{name}"] = content
    return ARecord(headers=list(headers.items()), topic=topic, partition=0, offset=41)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20).filter(lambda name: not name.startswith("headrace-retry-"))
RECORDS = st.builds(
    ARecord,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=50),
    st.lists(st.tuples(TEXT, st.binary(max_size=20)), max_size=5),
    st.integers(0, 10**13),
    st.sampled_from(list(Topics("p").lanes("m"))),
    st.integers(0, 9999),
    st.integers(0, 2**62),
)


@given(RECORDS, st.integers(0, 10**13), st.lists(st.integers(1, 1000), min_size=1, max_size=4))
def test_the_original_comes_back_whole_after_any_number_of_rounds(
    original: ARecord, due_ms: int, attempts: list[int]
) -> None:
    record = original
    for count in attempts:
        record = published(retry_record(work_of(record, count), due_ms))
    place = (original.topic, original.partition, original.offset, original.timestamp)
    assert origin_of(record) == Origin(*place, attempts[-1], due_ms, list(original.headers))
    assert (record.key, record.value) == (original.key, original.value)
    assert len(record.headers) == len(original.headers) + 6


def test_the_headers_are_text_of_few_bytes_also_for_the_longest_names() -> None:
    topic = Topics("p" * 24).requests("m" * 64, Lane.INTERACTIVE)
    record = ARecord(headers=(), topic=topic, partition=99_999, offset=2**63 - 1)
    headers = dict(retry_record(work_of(record, 10**9), 10**13).headers)
    assert headers["headrace-retry-attempts"] == b"9999"
    assert sum(len(name) + len(content) for name, content in headers.items()) < 300
    assert REQUEST_ID.fullmatch(derived_id(topic, 99_999, 2**63 - 1))


def test_a_record_that_was_never_tried_again_is_its_own_origin() -> None:
    record = ARecord(headers=[("ce_id", b"a")])
    assert origin_of(record) == Origin("p.m.bulk", 3, 7, 990_000, 0, None, [("ce_id", b"a")])
    assert due_of(record, NOW) is None


def test_headers_of_ours_on_a_request_topic_are_not_believed_and_do_not_pile_up() -> None:
    forged = with_headers(topic="p.m.async")
    assert (origin_of(forged).topic, origin_of(forged).attempts, origin_of(forged).due_ms) == ("p.m.async", 0, None)
    again = published(retry_record(work_of(forged), 2_000_000))
    assert (origin_of(again).topic, len(again.headers)) == ("p.m.async", 6)


@pytest.mark.parametrize(
    "changed",
    [
        *[(name, None) for name in ("topic", "partition", "offset", "timestamp", "attempts", "due")],
        *[("topic", text) for text in (b"", b"p.other.bulk", b"p.m.dead", b"q.m.bulk", b"bulk", b"\xff", b"p.m")],
        *[("partition", text) for text in (b"", b"-1", b"x", b"1.0", b"100000", "\u0663".encode())],
        *[("offset", text) for text in (b"", b"-1", b" 1", b"1_0", b"9" * 20)],
        *[("timestamp", text) for text in (b"", b"-2", b"9" * 16)],
        *[("attempts", text) for text in (b"", b"-1", b"99999", b"\xff")],
        *[("due", text) for text in (b"", b"-1", b"soon", b"9" * 16)],
    ],
)
def test_a_record_with_headers_of_another_hand_is_a_request_of_its_own_that_may_run_at_once(
    changed: tuple[str, bytes | None],
) -> None:
    record = with_headers(changed)
    assert origin_of(record) == Origin("p.m.retry", 0, 41, 990_000, 0, None, [])
    assert due_of(record, NOW) is None


def test_a_header_that_is_there_twice_is_of_another_hand() -> None:
    record = with_headers()
    doubled = record._replace(headers=[*record.headers, ("headrace-retry-due", b"1")])
    assert origin_of(doubled).topic == "p.m.retry"


def test_a_record_that_another_hand_put_there_keeps_its_place_over_rounds() -> None:
    foreign = ARecord(topic="p.m.retry", partition=1, offset=5)
    again = published(retry_record(work_of(foreign), 2_000_000))
    assert origin_of(again) == Origin("p.m.retry", 1, 5, 990_000, 1, 2_000_000, [])


def test_without_a_timestamp_deadlines_count_from_the_first_retry_and_not_anew_from_each() -> None:
    first = published(retry_record(work_of(ARecord(timestamp=-1)), 2_000_000), WRITTEN_MS)
    second = published(retry_record(work_of(first), 3_000_000), WRITTEN_MS + 400)
    assert (origin_of(first).timestamp_ms, origin_of(second).timestamp_ms) == (WRITTEN_MS, WRITTEN_MS)


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["topic", "partition", "offset", "timestamp", "attempts", "due", ""]).map(
            "headrace-retry-".__add__
        ),
        st.none() | st.binary(max_size=30) | st.sampled_from([b"p.m.async", b"0", b"17"]),
    ),
    max_size=9,
)


@given(HEADERS, st.integers(-1, 10**15))
def test_no_headers_make_it_raise_or_wait_longer_than_a_day(
    headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    record = ARecord(headers=headers, topic="p.m.retry", timestamp=timestamp)  # type: ignore[arg-type]
    assert origin_of(record).headers == []
    assert (due_of(record, NOW) or 0.0) <= NOW.monotonic + LONGEST_DELAY_S


@given(st.integers(0, 2_000_000), st.integers(0, 3_000_000))
def test_it_is_never_due_before_its_time_by_this_clock(due_ms: int, now_ms: int) -> None:
    due = due_of(published(retry_record(work_of(ARecord()), due_ms), now_ms), Now(100.0, now_ms))
    waits_s = 0.0 if due is None else due - 100.0
    assert now_ms + round(waits_s * 1000) >= due_ms
    assert waits_s <= max(0, due_ms - now_ms) / 1000 + 1e-6


def test_a_clock_ahead_lengthens_no_pause() -> None:
    ahead_ms = 3_600_000
    record = published(retry_record(work_of(ARecord()), 50_000 + ahead_ms + 5_000), 50_000 + ahead_ms)
    assert due_of(record, Now(100.0, 50_000)) == 105.0


@pytest.mark.parametrize(("written_ms", "waits_s"), [(-1, 86_400), (9 * 10**8, 86_300), (10, None)])
def test_a_due_time_of_a_wrong_clock_is_at_most_a_day_after_the_record_was_written(
    written_ms: int, waits_s: int | None
) -> None:
    now = Now(monotonic=100.0, epoch_ms=9 * 10**8 + 100_000)
    due = due_of(published(retry_record(work_of(ARecord()), 10**14), written_ms), now)
    assert due == (None if waits_s is None else now.monotonic + waits_s)
