"""What follows a failure: isolation of an offender, another attempt or none, and the count of deaths."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import Code, DeadlineExceeded, HeadraceError, InferenceFailed, InvalidRequest, ModelNotReady
from workers.retry import AfterDeath, Again, Isolation, Span, Trust, after_death, after_failure, restart_delay_s
from workers.runners.engine import RetryPolicy

POLICY = RetryPolicy(first_delay_s=1.0, longest_delay_s=10.0)


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
    assert after_death(4, 5, alone=True) is AfterDeath.RUN_ALONE
    assert after_death(5, 5, alone=True) is AfterDeath.GIVE_UP


def test_nobody_is_given_up_for_a_death_in_company() -> None:
    assert after_death(1, 1, alone=False) is AfterDeath.RUN_ALONE
    assert after_death(9, 5, alone=False) is AfterDeath.RUN_ALONE


def judged(
    error: HeadraceError, attempts: int = 0, *, policy: RetryPolicy = POLICY, expires: float | None = None,
    chance: float = 1.0,
) -> Again | None:  # fmt: skip
    return after_failure(error, attempts, policy, 5, now=100.0, expires=expires, random=lambda: chance)


def asks_back(error: HeadraceError, delay_s: float) -> HeadraceError:
    error.retry_after_s = delay_s
    return error


@pytest.mark.parametrize(
    "error", [InvalidRequest(), InferenceFailed(), DeadlineExceeded(), HeadraceError.from_code("NEWER_CODE", "?")]
)
def test_what_does_not_pass_by_itself_is_answered_at_once(error: HeadraceError) -> None:
    assert judged(error) is None


def test_a_transient_failure_is_tried_again_after_pauses_that_double_up_to_the_longest() -> None:
    pauses = [judged(ModelNotReady(), attempts, policy=RetryPolicy(limit=9, first_delay_s=1, longest_delay_s=10))
              for attempts in range(6)]  # fmt: skip
    assert pauses == [Again(1), Again(2), Again(4), Again(8), Again(10), Again(10)]


def test_requests_that_failed_together_come_back_apart() -> None:
    assert judged(ModelNotReady(), chance=0.0) == Again(0.5)
    assert judged(ModelNotReady(), chance=0.5) == Again(0.75)


def test_which_codes_are_transient_is_for_the_model_to_say() -> None:
    policy = RetryPolicy(codes=(Code.INFERENCE_FAILED.value,), first_delay_s=1.0)
    assert judged(InferenceFailed(), policy=policy) == Again(1.0)
    assert judged(ModelNotReady(), policy=policy) is None


def test_a_failure_that_says_when_is_transient_and_never_tried_sooner() -> None:
    assert judged(asks_back(InferenceFailed(), 7.0)) == Again(7.0)
    assert judged(asks_back(InferenceFailed(), 60.0)) == Again(60.0)
    assert judged(asks_back(InferenceFailed(), 0.0)) == Again(1.0)


def test_the_last_attempt_is_answered() -> None:
    assert judged(ModelNotReady(), attempts=3) is not None
    assert judged(ModelNotReady(), attempts=4) is None
    assert judged(ModelNotReady(), attempts=1, policy=RetryPolicy(limit=2)) is None


def test_no_attempt_is_made_after_the_deadline() -> None:
    assert judged(ModelNotReady(), expires=101.0) is None
    assert judged(ModelNotReady(), expires=101.1) == Again(1.0)


@given(st.integers(0, 2000), st.floats(0, 1), st.floats(0, 1e6), st.none() | st.floats(100, 1e6))
def test_a_pause_is_within_its_bounds_whatever_has_happened(
    attempts: int, chance: float, retry_after_s: float, expires: float | None
) -> None:
    policy = RetryPolicy(limit=5000, first_delay_s=1.0, longest_delay_s=10.0)
    again = judged(asks_back(ModelNotReady(), retry_after_s), attempts, policy=policy, expires=expires, chance=chance)
    if again is not None:
        assert max(0.5, retry_after_s) <= again.delay_s <= max(10.0, retry_after_s)
        assert expires is None or 100.0 + again.delay_s < expires


def test_two_errors_of_the_device_in_a_row_cost_a_runner_its_trust() -> None:
    lost = InferenceFailed("RuntimeError: CUDA error: unknown error")
    trust = Trust()
    assert [trust.note(each) for each in (lost, None, lost, lost, InferenceFailed("no"), lost)] == [
        False, False, False, True, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (InferenceFailed("Fail: [ONNXRuntimeError] : 1 : FAIL : CUDA failure 999: unknown error ; GPU=0"), True),
        (InferenceFailed("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), True),
        (InferenceFailed("CUDARuntimeError: cudaErrorUnknown: unknown error"), True),
        (InferenceFailed("ValueError: cannot digest 666"), False),
        (InvalidRequest("CUDA error: it is the caller who says so"), False),
    ],
)
def test_an_error_of_the_device_is_told_by_its_text(error: HeadraceError, names: bool) -> None:
    trust = Trust()
    trust.note(error)
    assert trust.doubted is names


def test_the_first_restart_is_immediate_and_later_ones_wait_at_most_half_a_minute() -> None:
    assert restart_delay_s(1) == 0.0
    assert 0 < restart_delay_s(2) < restart_delay_s(3) <= restart_delay_s(100) == 30.0
