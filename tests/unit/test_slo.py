"""`slo_ms`: the highest throughput that holds the SLO, on devices simulated in virtual time."""

import math
from collections.abc import Callable, Iterable

import pytest

from benchmarks.slo_study import Device, Done, Fixed, quantile_s, rows_per_s, simulate
from workers.run_times import RunTimes
from workers.slo import AIM, SloControl

SLO_S, MAX_ROWS = 0.060, 256
SIZES = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256)


def linear(rows: int, now: float) -> float:
    return 0.004 + 0.0005 * rows


def mostly_fixed(rows: int, now: float) -> float:
    return 0.010 + 0.0001 * rows


def slower_when_large(rows: int, now: float) -> float:
    return 0.001 + 0.0005 * rows * (1.0 + 0.01 * max(0, rows - 8))


class Unknown:
    def predict_s(self, bucket: object, rows: int, cost: float) -> float:
        return 0.0


def at(rate: float) -> Callable[[float], float]:
    return lambda now: rate


def controlled(device: Device, rate: Callable[[float], float], seconds: float, *, bulk: bool = False) -> list[Done]:
    run_times = RunTimes()
    control = SloControl(SLO_S, MAX_ROWS, run_times)
    return simulate(control, device, rate, seconds, bulk=bulk, run_times=run_times)


def between(done: list[Done], start: float, end: float = math.inf) -> list[Done]:
    return [each for each in done if start <= each.start < end]


def late(done: Iterable[Done]) -> float:
    latencies = [latency for each in done for latency in each.latencies_s]
    return sum(latency > SLO_S for latency in latencies) / len(latencies)


def best_fixed(device: Device) -> float:
    """Rows a second of the best fixed size that holds the SLO at p99, with as little in hand as the control keeps."""
    tried = [simulate(Fixed(rows), device, at(100.0), 15.0, bulk=True) for rows in SIZES]
    return max(rows_per_s(done) for done in tried if quantile_s(done) <= AIM * SLO_S)


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("seconds", [linear, mostly_fixed, slower_when_large])
def test_with_bulk_behind_it_holds_the_slo_and_passes_what_the_best_fixed_size_does(
    seconds: Callable[[int, float], float], ahead: int
) -> None:
    device = Device(seconds, ahead=ahead)
    settled = between(controlled(device, at(100.0), 35.0, bulk=True), 10.0)
    assert late(settled) <= 0.01
    assert rows_per_s(settled) >= 0.95 * best_fixed(device)


def test_it_is_near_its_size_after_two_hundred_batches() -> None:
    done = controlled(Device(linear), at(100.0), 30.0, bulk=True)
    at_last = done[-1].most_rows
    assert all(0.75 * at_last <= each.most_rows <= 1.3 * at_last for each in done[200:])


def test_a_device_twice_as_slow_is_followed_within_a_second_and_used_well_afterwards() -> None:
    def slows_down(rows: int, now: float) -> float:
        return linear(rows, now) * (2.0 if now > 20.0 else 1.0)

    done = controlled(Device(slows_down), at(50.0), 60.0, bulk=True)
    slow = Device(lambda rows, now: 2.0 * linear(rows, now))
    assert late(between(done, 22.0)) <= 0.01
    assert rows_per_s(between(done, 35.0)) >= 0.95 * best_fixed(slow)


def test_an_idle_device_never_waits_for_company() -> None:
    control = SloControl(SLO_S, MAX_ROWS, RunTimes())
    done = simulate(control, Device(linear), at(10.0), 60.0)
    assert quantile_s(done, 0.5) < 1.2 * linear(1, 0.0)
    assert control.wait_s(60.0) == 0.0


def test_a_deep_queue_fills_batches_at_once_to_what_the_slo_allows() -> None:
    burst = controlled(Device(linear), lambda now: 5000.0 if 20.0 < now < 21.0 else 200.0, 30.0)
    deep = between(burst, 20.2, 21.0)
    assert {each.rows == each.most_rows for each in deep} == {True}
    assert all(0.25 * SLO_S <= linear(each.rows, 0.0) <= 1.1 * SLO_S for each in deep)


@pytest.mark.parametrize("rate", [400.0, 1000.0, 1500.0])
def test_requests_alone_are_carried_within_the_slo(rate: float) -> None:
    settled = between(controlled(Device(linear), at(rate), 25.0), 5.0)
    assert rows_per_s(settled) == pytest.approx(rate, rel=0.03)
    assert late(settled) <= 0.01


def test_more_than_the_device_carries_does_not_lead_to_small_batches() -> None:
    done = controlled(Device(linear), at(3000.0), 20.0)
    assert rows_per_s(between(done, 5.0)) >= 0.9 * 112 / linear(112, 0.0)


def test_where_large_batches_are_slow_it_carries_what_unbounded_ones_do_not() -> None:
    device = Device(slower_when_large)
    ours = between(controlled(device, at(1450.0), 25.0), 5.0)
    assert late(ours) <= 0.01
    assert late(between(simulate(Fixed(MAX_ROWS), device, at(1700.0), 25.0), 5.0)) > 0.5


def test_from_half_load_on_waiting_spares_work_within_the_slo() -> None:
    device = Device(linear)
    waits, takes = controlled(device, at(400.0), 30.0), simulate(Fixed(MAX_ROWS), device, at(400.0), 30.0)
    assert late(between(waits, 5.0)) <= 0.01
    assert len(waits) < 0.8 * len(takes)


def test_without_run_times_late_answers_make_batches_smaller_and_early_ones_larger() -> None:
    control = SloControl(SLO_S, MAX_ROWS, Unknown())
    done = simulate(control, Device(linear), at(100.0), 60.0, bulk=True)
    assert late(between(done, 20.0)) <= 0.01
    assert rows_per_s(between(done, 20.0)) >= 0.95 * best_fixed(Device(linear))


def test_late_answers_change_nothing_where_batches_are_not_full() -> None:
    control = SloControl(SLO_S, MAX_ROWS, Unknown())
    before = control.max_rows(0.0)
    for beat in range(500):
        control.took(1, 0, beat * 0.01)
        control.observe(2.0 * SLO_S, beat * 0.01)
    assert control.max_rows(10.0) == before


def test_late_answers_change_nothing_while_more_waits_than_a_batch_can_take() -> None:
    control = SloControl(SLO_S, MAX_ROWS, Unknown())
    before = control.max_rows(0.0)
    for beat in range(500):
        control.took(before, 10 * before, beat * 0.01)
        control.observe(2.0 * SLO_S, beat * 0.01)
    assert control.max_rows(10.0) == before


def test_there_is_always_room_for_one_row() -> None:
    run_times = RunTimes()
    run_times.observe("x", 1, 1.0, 100.0 * SLO_S)
    assert SloControl(SLO_S, MAX_ROWS, run_times).max_rows(0.0) == 1
    assert SloControl(SLO_S, 1, run_times).max_rows(0.0) == 1


@pytest.mark.parametrize("latency_s", [math.nan, math.inf, -1.0, 0.0])
def test_latencies_that_cannot_be_do_no_harm(latency_s: float) -> None:
    control = SloControl(SLO_S, MAX_ROWS, Unknown())
    for beat in range(300):
        control.took(MAX_ROWS, 0, beat * 0.01)
        control.observe(latency_s, beat * 0.01)
    assert 1 <= control.max_rows(5.0) <= MAX_ROWS
    assert 0.0 <= control.wait_s(5.0) <= SLO_S


def test_rows_are_found_where_run_times_follow_a_declared_cost() -> None:
    """A cost that counts in other units than rows changes nothing."""
    found = [_rows_within_slo(cost_of_row) for cost_of_row in (1.0, 512.0)]
    assert found[0] == found[1] == pytest.approx(40, abs=8)


def _rows_within_slo(cost_of_row: float) -> int:
    """The rows of a batch, where it takes 4 ms and half a millisecond more a row."""
    run_times = RunTimes()
    control = SloControl(SLO_S, MAX_ROWS, run_times)
    for rows in SIZES * 4:
        cost = rows * cost_of_row
        run_times.observe((), rows, cost, 0.004 + 0.0005 * rows)
        control.took(rows, 0, 0.0, cost)
    return control.max_rows(1.0)
