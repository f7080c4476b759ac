"""The backlog: order, bounds, buckets, expiry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._memory_logs import MemoryRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.backlog import Backlog
from workers.commit import PartitionLedger
from workers.work import Source, Work

LEDGER = PartitionLedger(TopicPartition("t", 0))
RECORD = MemoryRecord("t", 0, 0, 0, None, b"", ())


def work(
    id: str = "a", *, lane: Lane = Lane.ASYNC, rows: int = 1, arrived: float = 0.0, expires: float | None = None,
    bucket: object = (), nbytes: int = 10, ledger: PartitionLedger = LEDGER, alone: bool = False,
) -> Work:  # fmt: skip
    return Work(Request(id, {}), Source(ledger, 0), RECORD, lane, rows, nbytes, bucket, arrived, expires, 0, alone)


def backlog_of(*works: Work, max_requests: int = 100, max_bytes: int = 10_000) -> Backlog:
    backlog = Backlog(max_requests, max_bytes)
    for each in works:
        backlog.add(each)
    return backlog


def ids(backlog: Backlog, rows: int = 32) -> list[str]:
    return [each.request.id for each in backlog.take(rows, 10_000).works]


def test_lanes_come_in_order_and_deadlines_within_a_lane() -> None:
    backlog = backlog_of(
        work("bulk", lane=Lane.BULK, expires=1.0),
        work("late", lane=Lane.INTERACTIVE, expires=9.0),
        work("soon", lane=Lane.INTERACTIVE, expires=2.0),
        work("async"),
    )
    assert ids(backlog) == ["soon", "late", "async", "bulk"]


def test_a_request_without_deadline_is_not_starved_by_later_ones_with_deadlines() -> None:
    backlog = backlog_of(work("old", arrived=0.0), work("new", arrived=50.0, expires=80.0))
    assert ids(backlog)[0] == "old"


def test_a_batch_never_exceeds_its_rows_or_bytes() -> None:
    backlog = backlog_of(*(work(rows=3, nbytes=40) for _ in range(10)))
    assert backlog.take(8, 10_000).rows == 6
    assert len(backlog.take(100, 100).works) == 2


def test_a_single_request_over_the_bytes_still_runs() -> None:
    assert backlog_of(work(nbytes=500)).take(32, 100).rows == 1


def test_buckets_never_mix_and_the_most_urgent_runs_first() -> None:
    backlog = backlog_of(
        work("a", bucket=(1,), expires=5.0), work("b", bucket=(2,), expires=1.0), work("c", bucket=(1,))
    )
    assert [ids(backlog), ids(backlog)] == [["b"], ["a", "c"]]


def test_a_request_that_was_in_flight_at_a_death_runs_alone_and_first() -> None:
    backlog = backlog_of(work("good"), work("suspect", alone=True), work("other"))
    waiting = backlog.next_up(32)
    assert waiting is not None
    assert waiting.alone
    assert [ids(backlog), ids(backlog)] == [["suspect"], ["good", "other"]]


def test_room_ends_with_the_requests_or_with_the_bytes() -> None:
    assert backlog_of(work(), work(), max_requests=3).room == 1
    assert backlog_of(work(nbytes=50), max_bytes=50).room == 0


def test_expired_requests_leave_first_and_only_they() -> None:
    backlog = backlog_of(work("gone", expires=1.0), work("there", expires=3.0), work("dead", expires=1.5, alone=True))
    assert {each.request.id for each in backlog.take_expired(2.0)} == {"gone", "dead"}
    assert backlog.earliest_expiry == 3.0
    assert len(backlog) == 1


def test_dropping_a_partition_forgets_only_its_requests() -> None:
    leaving = PartitionLedger(TopicPartition("t", 1))
    backlog = backlog_of(work("stays"), work("goes", ledger=leaving), work("too", ledger=leaving, alone=True))
    assert backlog.drop([leaving]) == 2
    assert ids(backlog) == ["stays"]


def test_the_oldest_of_what_is_left_is_told_after_a_batch_was_taken() -> None:
    backlog = backlog_of(work(arrived=1.0, expires=2.0), work(arrived=5.0, expires=9.0))
    backlog.take(1, 10_000)
    waiting = backlog.next_up(32)
    assert waiting is not None
    assert (waiting.oldest, waiting.expires) == (5.0, 9.0)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.sampled_from(list(Lane))), max_size=40))
def test_everything_added_comes_out_exactly_once_and_the_sums_return_to_zero(
    items: list[tuple[int, int, Lane]],
) -> None:
    backlog = backlog_of(*(work(str(n), rows=r, bucket=b, lane=lane) for n, (r, b, lane) in enumerate(items)))
    out: list[str] = []
    while len(backlog):
        out += ids(backlog, rows=7)
    assert sorted(out) == sorted(str(n) for n in range(len(items)))
    assert backlog.nbytes == 0
    assert backlog.next_up(32) is None


def test_an_empty_backlog_has_nothing_to_take() -> None:
    assert backlog_of().next_up(1) is None
    with pytest.raises(ValueError, match="min"):
        backlog_of().take(1, 1)


def test_intake_goes_on_once_half_of_the_requests_and_of_the_bytes_have_left() -> None:
    backlog = backlog_of(*(work(nbytes=10) for _ in range(4)), max_requests=4, max_bytes=40)
    assert not backlog.half_empty
    backlog.take(1, 100)
    assert not backlog.half_empty
    backlog.take(1, 100)
    assert backlog.half_empty
    assert not backlog_of(work(nbytes=30), max_requests=4, max_bytes=40).half_empty
