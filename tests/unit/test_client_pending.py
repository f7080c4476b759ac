"""The table of requests that wait for a reply: a decision of values and `now`."""

import pytest

from producer_sdk._pending import Outcome, Pending
from producer_sdk.errors import DeadlineExceeded, InvalidRequest, QueueFull
from producer_sdk.wire import Reply

REPLY = Reply("a", "mlp", "1", {})


class Seen:
    """A waiter that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def settle(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_a_waiter_is_told_once() -> None:
    pending, seen = Pending(10), Seen()
    pending.expect("a", 5.0, seen)
    assert [pending.settle("a", REPLY, answered=True), pending.settle("a", REPLY, answered=True)] == [True, False]
    assert seen.outcomes == [REPLY]


def test_a_second_request_of_the_same_id_is_refused_by_name() -> None:
    pending = Pending(10)
    pending.expect("a", 5.0, Seen())
    with pytest.raises(InvalidRequest, match="'a'") as refused:
        pending.expect("a", 5.0, Seen())
    assert refused.value.id == "a"


def test_a_full_table_refuses_at_once_and_takes_again_after_an_outcome() -> None:
    pending = Pending(1)
    pending.expect("a", 5.0, Seen())
    with pytest.raises(QueueFull):
        pending.expect("b", 5.0, Seen())
    pending.settle("a", REPLY)
    pending.expect("b", 5.0, Seen())


def test_a_sweep_ends_what_is_past_due_and_says_when_to_come_again() -> None:
    pending, early, late = Pending(10), Seen(), Seen()
    pending.expect("a", 5.0, early)
    pending.expect("b", 7.0, late)
    assert pending.sweep(6.0) == 7.0
    assert isinstance(early.outcomes[0], DeadlineExceeded)
    assert (early.outcomes[0].id, late.outcomes) == ("a", [])


def test_a_sweep_of_nothing_asks_for_no_other() -> None:
    assert Pending(10).sweep(1.0) is None


def test_ended_ids_tell_late_replies_from_second_ones_and_foreign_ones() -> None:
    pending = Pending(10)
    for id in ("answered", "expired", "forgotten"):
        pending.expect(id, 5.0, Seen())
    pending.settle("answered", REPLY, answered=True)
    pending.sweep(6.0)
    pending.forget("forgotten")
    assert [pending.was_answered(id) for id in ("answered", "expired", "forgotten", "foreign")] == [
        True,
        False,
        False,
        None,
    ]


def test_memory_of_ended_ids_is_bounded() -> None:
    pending = Pending(2)
    for number in range(100):
        pending.expect(str(number), 5.0, Seen())
        pending.settle(str(number), REPLY, answered=True)
    remembered = [number for number in range(100) if pending.was_answered(str(number))]
    assert 2 <= len(remembered) <= 4
    assert remembered[-1] == 99
