"""What follows a failure: isolation of an offender, and the count of deaths."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.retry import AfterDeath, Isolation, Span, after_death, restart_delay_s


def isolate_all(records: int, poison: set[int]) -> tuple[set[int], set[int], int]:
    """Offenders, records answered, and runs after the first, for a batch in which `poison` fails whatever it is in."""
    offenders: set[int] = set()
    answered: set[int] = set()
    left, runs = Span(0, records), -1

    def fails(span: Span) -> bool:
        nonlocal runs
        runs += 1
        failed = bool(poison & set(range(span.first, span.last)))
        if not failed:
            answered.update(range(span.first, span.last))
        return failed

    while len(left):
        if not fails(left):
            break
        isolation = Isolation(left)
        while (part := isolation.next_run()) is not None:
            isolation.ran(part, failed=fails(part))
        offenders.add(isolation.offender)
        left = isolation.set_aside
    return offenders, answered, runs


@pytest.mark.parametrize("records", [2, 3, 8, 31, 32, 100])
def test_one_poison_costs_at_most_log2_and_one_run_more(records: int) -> None:
    worst = max(isolate_all(records, {place})[2] for place in range(records))
    assert worst <= math.ceil(math.log2(records)) + 1


@given(st.integers(1, 64), st.data())
def test_exactly_the_poison_fails_and_every_other_record_is_answered_once(records: int, data: st.DataObject) -> None:
    poison = data.draw(st.sets(st.integers(0, records - 1)))
    offenders, answered, _ = isolate_all(records, poison)
    assert offenders == poison
    assert answered == set(range(records)) - poison


def test_a_request_is_given_up_at_the_limit_and_not_before() -> None:
    assert after_death(4, 5) is AfterDeath.RUN_ALONE
    assert after_death(5, 5) is AfterDeath.GIVE_UP


def test_the_first_restart_is_immediate_and_later_ones_wait_at_most_half_a_minute() -> None:
    assert restart_delay_s(1) == 0.0
    assert 0 < restart_delay_s(2) < restart_delay_s(3) <= restart_delay_s(100) == 30.0
