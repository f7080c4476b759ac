"""Requests that wait for their time: none leaves too early, none is kept, none is forgotten."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.commit import PartitionLedger
from workers.later import Later
from workers.work import Source, Work

LEDGER = PartitionLedger(TopicPartition("t", 0))
RECORD = ReadRecord("t", 0, 0, 0, None, b"", ())


def work(id: str = "a", *, expires: float | None = None, nbytes: int = 10, ledger: PartitionLedger = LEDGER) -> Work:
    return Work(Request(id, {}), Source(ledger, 0), RECORD, Lane.ASYNC, 1, nbytes, (), 0.0, expires)


def later_with(*entries: tuple[Work, float], max_requests: int = 100) -> Later:
    later = Later(max_requests, max_bytes=1000)
    for entry in entries:
        later.add(*entry)
    return later


def ids(works: list[Work]) -> list[str]:
    return [each.request.id for each in works]


def test_those_whose_time_has_come_leave_soonest_first_and_no_other() -> None:
    later = later_with((work("c"), 3.0), (work("a"), 1.0), (work("b"), 2.0), (work("d"), 2.0))
    assert ids(later.take_due(0.999)) == []
    assert ids(later.take_due(2.0)) == ["a", "b", "d"]
    assert (later.next_due, len(later), ids(later.works())) == (3.0, 1, ["c"])


def test_nothing_is_due_where_nothing_waits() -> None:
    later = Later(1)
    assert (later.next_due, later.earliest_expiry, later.full, len(later)) == (math.inf, math.inf, False, 0)
    assert later.take_due(math.inf) == later.take_expired(1e9) == []


@pytest.mark.parametrize("entries", [[(work(), 1.0)] * 3, [(work(nbytes=1000), 1.0)]])
def test_it_is_full_at_its_requests_or_at_its_bytes_until_some_leave(entries: list[tuple[Work, float]]) -> None:
    later = later_with(*entries, max_requests=3)
    assert later.full
    later.take_due(1.0)
    assert not later.full


def test_expired_requests_leave_before_their_time_and_only_they() -> None:
    later = later_with((work("gone", expires=1.0), 9.0), (work("there", expires=3.0), 9.0), (work("ever"), 9.0))
    assert later.earliest_expiry == 1.0
    assert ids(later.take_expired(0.5)) == []
    assert ids(later.take_expired(1.0)) == ["gone"]
    assert (later.earliest_expiry, len(later)) == (3.0, 2)


def test_the_earliest_expiry_of_those_that_have_left_is_looked_at_once() -> None:
    later = later_with((work("a", expires=1.0), 0.5), (work("b", expires=3.0), 9.0))
    later.take_due(0.5)
    assert ids(later.take_expired(1.0)) == []
    assert later.earliest_expiry == 3.0


def test_dropping_a_partition_forgets_only_its_requests() -> None:
    leaving = PartitionLedger(TopicPartition("t", 1))
    later = later_with((work("stays"), 1.0), (work("goes", ledger=leaving), 0.5), (work("too", ledger=leaving), 2.0))
    assert later.drop([leaving]) == 2
    assert (ids(later.works()), later.next_due, later.nbytes) == (["stays"], 1.0, 10)


TIMES = st.floats(0, 10)


@given(st.lists(st.tuples(TIMES, st.none() | TIMES), max_size=30), st.lists(TIMES, max_size=8), st.sets(st.integers()))
def test_each_comes_out_once_never_before_its_time_nor_expired_before_its_deadline(
    asked: list[tuple[float, float | None]], moments: list[float], unwanted: set[int]
) -> None:
    later = later_with(*((work(str(n), expires=expires), due) for n, (due, expires) in enumerate(asked)))
    dues, out = {str(n): due for n, (due, _) in enumerate(asked)}, []
    out += ids(later.take_out(lambda each: int(each.request.id) in unwanted))
    for now in [*sorted(moments), 10.0]:
        expired = later.take_expired(now)
        assert all(each.expires is not None and each.expires <= now for each in expired)
        assert all(each.expires is None or each.expires > now for each in later.works())
        due = ids(later.take_due(now))
        assert all(dues[id] <= now for id in due)
        assert later.next_due > now
        out += ids(expired) + due
    assert sorted(out) == sorted(dues)
    assert (later.nbytes, len(later)) == (0, 0)
