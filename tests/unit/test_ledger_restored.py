"""The ledger of the next owner: what it makes of the text that was committed beside the offset."""

import pytest
from ledgers import CLOSED, OPEN, PARTITION, committed_by, finish, ledger_with, next_owner, remembered_by

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger
from workers.offset_map import Mark, Remembered


def test_a_start_is_committed_at_once_and_keeps_the_map_that_was_read() -> None:
    start = committed_by(ledger := ledger_with(5, 6, 7, 8), closed=True)
    assert PartitionLedger(PARTITION, start).committable() == Committed(5, OPEN)
    finish(ledger, [6, 8])
    start = committed_by(ledger)
    owner = PartitionLedger(PARTITION, start)
    assert committed_by(owner) == start
    assert owner.committable() is None


def test_a_start_without_a_text_or_with_a_foreign_one_is_committed_as_open() -> None:
    assert PartitionLedger(PARTITION, Committed(0)).committable() == Committed(0, OPEN)
    assert PartitionLedger(PARTITION, Committed(9, "of Kafka Streams")).committable() == Committed(9, OPEN)


def test_what_was_completed_above_the_offset_is_not_worked_again_and_the_rest_is() -> None:
    ledger = ledger_with(*range(5, 12))
    finish(ledger, [6, 8, 9])
    owner = next_owner(ledger)
    assert owner.unfinished == 2
    assert not any(map(owner.is_reread, range(5, 13)))
    assert [offset for offset in range(5, 12) if owner.take(offset)] == [5, 7, 10, 11]
    assert not owner.take(10)
    assert owner.is_reread(11)
    finish(owner, [5, 7])
    assert committed_by(owner) == Committed(10, OPEN)


def test_the_record_behind_the_highest_completed_one_is_worked() -> None:
    ledger = ledger_with(5, 6, 7, 8)
    finish(ledger, [6, 7])
    start = committed_by(ledger)
    assert [offset for offset in range(5, 10) if PartitionLedger(PARTITION, start).take(offset)] == [5, 8, 9]
    ledger.finish(5)
    start = committed_by(ledger)
    assert [offset for offset in range(5, 10) if PartitionLedger(PARTITION, start).take(offset)] == [8, 9]


@pytest.mark.parametrize("polled", [8, 9, 20])
def test_expected_offsets_that_polling_passes_without_showing_them_are_done(polled: int) -> None:
    ledger = ledger_with(5, 6, 7, 8, 9)
    finish(ledger, [7, 9])
    owner = next_owner(ledger)
    assert owner.take(5)
    assert owner.take(polled) is (polled != 9)
    owner.finish(5)
    assert owner.lowest_unfinished == {8: 8, 9: 10, 20: 20}[polled]
    assert owner.is_reread(6)
    assert not owner.take(6)


def test_expected_offsets_that_are_gone_from_the_end_are_done_once_that_is_reached() -> None:
    ledger = ledger_with(5, 6, 7)
    ledger.finish(7)
    owner = next_owner(ledger)
    owner.reached(6)
    assert owner.lowest_unfinished == 6
    assert [owner.is_reread(offset) for offset in (5, 6)] == [True, False]
    assert owner.take(6)
    owner.reached(8)
    assert owner.lowest_unfinished == 6
    owner.finish(6)
    assert committed_by(owner) == Committed(8, OPEN)


def test_a_log_that_was_made_anew_is_noticed() -> None:
    ledger = ledger_with(5, 6, 7)
    finish(ledger, [5, 7])
    owner = next_owner(ledger)
    assert owner.is_reread(0)
    assert owner.is_reread(5)
    assert not owner.is_reread(6)
    assert not owner.take(0)
    owner.take(6)
    assert [owner.is_reread(offset) for offset in (6, 7)] == [True, False]


def test_offsets_of_a_map_that_is_not_polled_yet_are_passed_on() -> None:
    ledger = ledger_with(5, 6, 7, 8)
    finish(ledger, [6, 8])
    owner = next_owner(ledger)
    owner.take(5)
    owner.finish(5)
    assert remembered_by(committed_by(owner, closed=True)) == Remembered(Mark.CLOSED, 8, (7,))


def test_a_restored_ledger_is_not_crowded_before_what_it_expects_has_been_polled() -> None:
    ledger = ledger_with(*range(22_000))
    finish(ledger, range(1, 22_000, 2))
    owner = next_owner(ledger)
    committed_by(owner)
    assert not owner.crowded
    assert sum(map(owner.take, range(22_000))) == 11_000
    assert owner.crowded


def test_after_a_death_every_uncompleted_offset_within_the_cap_is_suspect() -> None:
    ledger = ledger_with(5, 6, 7, 8)
    ledger.finish(6)
    owner = next_owner(ledger, suspect_cap=4)
    assert [offset for offset in range(4, 12) if owner.is_suspect(offset)] == [5, 7, 8]
    assert [offset for offset in range(5, 12) if owner.take(offset)] == [5, 7, 8, 9, 10, 11]
    assert [offset for offset in range(4, 12) if owner.is_suspect(offset)] == [5, 7, 8]
    assert not any(map(owner.is_narrowed, range(4, 12)))
    owner.finish(7)
    assert [offset for offset in range(4, 12) if owner.is_suspect(offset)] == [5, 8]


def test_after_an_end_in_order_or_a_foreign_text_nothing_is_suspect() -> None:
    ledger = ledger_with(5, 6)
    ledger.trying([5, 6])
    for owner in (next_owner(ledger, 100, closed=True), PartitionLedger(PARTITION, Committed(5), 100)):
        assert not any(map(owner.is_suspect, range(20)))
        assert not any(map(owner.is_narrowed, range(20)))


def test_without_a_cap_and_without_a_death_nothing_is_suspect() -> None:
    ledger = ledger_with(5)
    assert not ledger.is_suspect(5)
    assert not next_owner(ledger).is_suspect(5)


def test_what_was_being_tried_is_alone_under_suspicion_and_to_be_tried_alone() -> None:
    ledger = ledger_with(5, 6, 7, 8)
    committed_by(ledger)
    ledger.trying([6, 8])
    owner = next_owner(ledger, suspect_cap=100)
    assert [offset for offset in range(5, 20) if owner.is_suspect(offset)] == [6, 8]
    assert [offset for offset in range(5, 20) if owner.is_narrowed(offset)] == [6, 8]
    owner.trying([6])
    one = next_owner(owner, suspect_cap=100)
    assert [offset for offset in range(5, 20) if one.is_suspect(offset)] == [6]
    assert one.is_narrowed(6)


def test_what_was_being_tried_is_passed_on_until_something_else_is() -> None:
    ledger = ledger_with(5, 6)
    ledger.trying([5, 6])
    again = next_owner(next_owner(ledger))
    assert again.is_narrowed(6)
    for offset in (5, 6):
        assert again.take(offset)
    again.trying([])
    assert not next_owner(again).is_suspect(6)


def test_what_was_tried_and_completed_is_not_named_any_more() -> None:
    ledger = ledger_with(5, 6, 7)
    ledger.trying([6])
    ledger.finish(6)
    owner = next_owner(ledger, suspect_cap=100)
    assert [offset for offset in range(5, 8) if owner.is_suspect(offset)] == [5, 7]


@pytest.mark.parametrize("closed", [False, True])
def test_attempts_survive_until_their_offset_is_completed(closed: bool) -> None:
    ledger = ledger_with(5, 6)
    committed_by(ledger)
    ledger.charge(5, 3)
    ledger.charge(6, 1)
    owner = next_owner(ledger, closed=closed)
    assert [owner.attempts(offset) for offset in (4, 5, 6, 7)] == [0, 3, 1, 0]
    for offset in (5, 6):
        assert owner.take(offset)
    owner.finish(5)
    assert remembered_by(owner.committable()).attempts == {6: 1}


def test_attempts_of_an_offset_that_is_gone_are_forgotten() -> None:
    ledger = ledger_with(5, 6)
    ledger.charge(6, 1)
    owner = next_owner(ledger)
    assert remembered_by(owner.committable()).attempts == {6: 1}
    assert owner.take(9)
    assert owner.committable() == Committed(9, OPEN)


def test_suspects_that_were_not_tried_to_their_end_stay_suspect_however_orderly_the_end() -> None:
    owner = next_owner(ledger_with(5, 6), suspect_cap=2)
    unpolled = next_owner(owner, suspect_cap=2, closed=True)
    assert unpolled.is_suspect(5)
    assert unpolled.take(5)
    assert unpolled.take(6)
    unpolled.finish(5)
    untried = next_owner(unpolled, suspect_cap=1, closed=True)
    assert untried.is_suspect(6)
    assert untried.take(6)
    untried.finish(6)
    assert committed_by(untried, closed=True).metadata == CLOSED


def test_once_the_named_suspects_are_done_an_end_in_order_is_marked_as_one() -> None:
    ledger = ledger_with(5, 6, 7)
    ledger.trying([7])
    owner = next_owner(ledger)
    assert [owner.take(offset) for offset in (5, 6, 7)] == [True] * 3
    owner.finish(7)
    assert remembered_by(owner.committable(closed=True)) == Remembered(Mark.CLOSED, 7, (5, 6))


def test_what_came_after_the_assignment_is_not_suspect_and_not_waited_for() -> None:
    owner = PartitionLedger(PARTITION, Committed(5, OPEN), suspect_cap=100)
    assert owner.expects_suspects
    owner.bound_suspects(7)
    assert [offset for offset in range(5, 9) if owner.take(offset) and owner.is_suspect(offset)] == [5, 6]
    assert not owner.expects_suspects


def test_suspects_that_are_gone_from_the_log_are_not_waited_for() -> None:
    owner = PartitionLedger(PARTITION, Committed(5, OPEN), suspect_cap=100)
    owner.bound_suspects(7)
    owner.reached(7)
    assert not owner.expects_suspects
    assert owner.committable(closed=True) == Committed(7, CLOSED)


def test_what_was_committed_for_another_partition_is_nothing_to_this_one() -> None:
    ledger = ledger_with(5, 6, 7)
    ledger.finish(6)
    elsewhere = PartitionLedger(TopicPartition("headrace.m.async", 4), committed_by(ledger))
    assert [elsewhere.take(offset) for offset in (5, 6, 7)] == [True] * 3
