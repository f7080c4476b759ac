"""A fetch that leaves partitions out does not wait for long: those have to wait for it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from producer_sdk._kafka_fetch import LEAST_WAIT_MS, PART_OF_AGE, PART_OF_EARLIER, Absences, shorten_waits
from producer_sdk.broker import TopicPartition

USUAL_MS = 500


def place(number: int) -> TopicPartition:
    return TopicPartition("headrace.m.async", number)


P, Q = place(0), place(1)
BULK, RETRY = TopicPartition("headrace.m.bulk", 0), TopicPartition("headrace.m.retry", 0)


class Fetcher:
    """What of aiokafka's Fetcher is looked at: it asks with the wait of the moment."""

    def __init__(self) -> None:
        self._fetch_max_wait_ms = USUAL_MS
        self._records: dict[TopicPartition, Any] = {}

    def _get_actions_per_node(self, assignment: Any) -> int:
        return self._fetch_max_wait_ms


def wait_ms(*, held_at: Sequence[float] = (), paused: bool = False, now: float = 100.0) -> int:
    """How long the fetch waits while records that came then are held, or a partition is paused."""
    fetcher = Fetcher()
    shorten_waits(fetcher, lambda: now)
    fetcher._records = {place(number): SimpleNamespace(_created=at) for number, at in enumerate(held_at)}
    fetcher._records[place(9)] = SimpleNamespace(_created=0.0)
    states = {place(0): paused, place(1): False, place(2): False}
    assignment = SimpleNamespace(tps=states, state_value=lambda each: SimpleNamespace(paused=states[each]))
    wait: int = fetcher._get_actions_per_node(assignment)
    fetcher._records.clear()
    states[place(0)] = False
    assert fetcher._get_actions_per_node(assignment) == USUAL_MS  # as soon as none is left out
    return wait


def test_a_fetch_of_everything_waits_as_usual() -> None:
    assert wait_ms() == USUAL_MS


def test_a_fetch_without_a_paused_partition_waits_for_a_moment() -> None:
    assert wait_ms(paused=True) == LEAST_WAIT_MS


@pytest.mark.parametrize(
    ("held_at", "wait"),
    [([99.9], LEAST_WAIT_MS), ([99.0], 100), ([99.0, 98.0], 200), ([50.0], USUAL_MS)],
)
def test_a_fetch_waits_a_part_of_the_time_that_others_take_to_be_taken(held_at: list[float], wait: int) -> None:
    assert wait_ms(held_at=held_at) == wait


def after(*lasted_s: float) -> tuple[Absences, float]:
    """A partition that has been left out so often, for so long each, a second apart, and is again from that time on."""
    absences, now = Absences(), 100.0
    for each in lasted_s:
        absences.wait_s({P: None}, now)
        now += each
        assert absences.wait_s({}, now) is None
        now += 1.0
    absences.wait_s({P: None}, now)
    return absences, now


def test_a_fetch_waits_a_part_of_how_long_the_partition_was_left_out_before() -> None:
    absences, now = after(4.0, 4.0)
    assert absences.wait_s({P: None}, now + 1.0) == pytest.approx(4.0 * PART_OF_EARLIER)


def test_it_waits_no_longer_than_the_partition_has_been_left_out_now() -> None:
    absences, now = after(4.0, 4.0)
    assert absences.wait_s({P: None}, now) == 0.0
    assert absences.wait_s({P: None}, now + 0.05) == pytest.approx(0.05)


def test_one_long_pause_alone_makes_no_later_fetch_wait() -> None:
    for lasted_s in ((60.0, 0.1), (0.1, 60.0)):
        absences, now = after(*lasted_s)
        assert absences.wait_s({P: None}, now + 1.0) == pytest.approx(0.1 * PART_OF_EARLIER)
    absences, now = after(60.0)
    assert absences.wait_s({P: None}, now + 1.0) == 0.0


def test_what_is_fetched_anew_begins_a_time_of_its_own() -> None:
    absences = Absences()
    assert absences.wait_s({P: 100.0}, 101.0) == pytest.approx(0.1)
    assert absences.wait_s({P: 102.0}, 102.5) == pytest.approx(0.05)
    assert absences.wait_s({P: 104.0}, 105.0) == pytest.approx(2.0 * PART_OF_EARLIER)


def test_the_partition_that_is_soonest_back_decides() -> None:
    absences, now = after(4.0, 4.0)
    assert absences.wait_s({P: None, Q: None}, now + 1.0) == 0.0


def test_what_has_just_come_of_one_lane_does_not_wait_as_what_has_lain_long_of_another() -> None:
    assert Absences().wait_s({BULK: 90.0, P: 99.99}, 100.0) == pytest.approx(0.01 * PART_OF_AGE)
    absences, now = after(20.0, 20.0)
    assert absences.wait_s({P: now - 2.0, BULK: now + 1.0}, now + 1.0) == 0.0


def test_what_has_just_come_waits_for_its_turn_behind_what_has_lain_long_of_the_same_lane() -> None:
    """A fetch for its sake would bring nothing that could run sooner."""
    assert Absences().wait_s({P: 90.0, Q: 99.99}, 100.0) == pytest.approx(10.0 * PART_OF_AGE)


def test_what_is_paused_with_nothing_here_waits_for_the_room_that_the_others_wait_for() -> None:
    """Retries, which are not read while requests of any lane wait for room."""
    assert Absences().wait_s({P: 90.0, RETRY: None}, 100.0) == pytest.approx(10.0 * PART_OF_AGE)


def test_an_assignment_learns_nothing_from_the_one_before() -> None:
    fetcher, now = Fetcher(), [100.0]
    shorten_waits(fetcher, lambda: now[0])
    state = SimpleNamespace(paused=False)

    def wait_ms_of(assignment: Any, *, paused: bool, at: float) -> int:
        state.paused, now[0] = paused, at
        wait: int = fetcher._get_actions_per_node(assignment)
        return wait

    first, second = (SimpleNamespace(tps=[P], state_value=lambda _: state) for _ in range(2))
    for at in (100.0, 105.0):
        wait_ms_of(first, paused=True, at=at)
        wait_ms_of(first, paused=False, at=at + 4.0)
    wait_ms_of(first, paused=True, at=110.0)
    assert wait_ms_of(first, paused=True, at=111.0) == 4000 * PART_OF_EARLIER
    wait_ms_of(second, paused=True, at=112.0)
    assert wait_ms_of(second, paused=True, at=113.0) == LEAST_WAIT_MS
