"""The worker in virtual time: each request has one end, and times add up."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sim_engine import Delays, End, Simulated, Simulation
from headrace.sim_report import summarize
from headrace.sim_times import Formula, Learned, formula_of
from headrace.sim_trace import Arrival
from producer_sdk.topics import Lane
from workers.backlog import Backlog
from workers.batch import BatchRule
from workers.run_times import RunTimes

RUN = Formula(0.010, 0.001)  # 11 ms alone, 14 ms for a full batch
DELAYS = Delays(0.001, 0.002, 0.003)


def backlog_of(rows: int = 4, wait_s: float = 0.0, requests: int = 1000) -> Backlog:
    backlog = Backlog(requests, 1 << 30, run_times=RUN)
    backlog.rule = BatchRule(rows, 1 << 30, wait_s)
    return backlog


def simulate(
    arrivals: Sequence[Arrival], *, replicas: int = 1, requests: int = 1000, delays: Delays = DELAYS
) -> Simulated:
    simulation = Simulation(backlog_of(requests=requests), RUN, run_times=RUN, replicas=replicas, delays=delays)
    return simulation.run(arrivals)


def latencies_ms(simulated: Simulated) -> list[float]:
    return [round(fate.latency_s * 1000, 6) for fate in simulated.fates]


def test_a_request_alone_takes_its_run_and_the_delays() -> None:
    assert latencies_ms(simulate([Arrival(5.0)])) == [1 + 2 + 11 + 3]


def test_a_batch_that_lies_ready_begins_as_the_one_before_it_ends() -> None:
    first, second = simulate([Arrival(0.0)] * 8).runs
    assert second.began == pytest.approx(first.began + first.run_s)
    assert (first.rows, second.rows) == (4, 4)


def test_a_full_batch_is_fixed_only_just_before_its_turn_so_that_who_is_urgent_still_gets_into_it() -> None:
    simulated = simulate([*[Arrival(0.0)] * 8, Arrival(0.005, deadline_s=0.040)])
    assert simulated.runs[1].rows == 4
    assert simulated.fates[-1].latency_s == pytest.approx(0.017 + 0.014 + 0.003 - 0.005)


def test_a_batch_that_was_gathered_on_a_busy_device_is_handed_over_first() -> None:
    first, second = simulate([Arrival(0.0), Arrival(0.005)]).runs
    assert second.began == pytest.approx(first.began + first.run_s + DELAYS.start_s)


def test_two_runners_run_at_a_time() -> None:
    first, second = simulate([Arrival(0.0)] * 8, replicas=2).runs
    assert first.began == second.began


def test_what_finds_no_room_waits_in_the_log_and_is_answered() -> None:
    arrivals = [Arrival(0.0, lane) for lane in (Lane.BULK, Lane.INTERACTIVE) for _ in range(50)]
    fates = simulate(arrivals, requests=5).fates
    assert {fate.end for fate in fates} == {End.ANSWERED}


def test_a_request_whose_deadline_passes_while_it_waits_is_not_run() -> None:
    arrivals = [*[Arrival(0.0)] * 8, Arrival(0.0015, deadline_s=0.005)]
    simulated = simulate(arrivals)
    assert simulated.fates[-1].end in (End.EXPIRED, End.REFUSED)
    assert sum(run.requests for run in simulated.runs) == 8


def test_an_answer_behind_the_deadline_is_late_though_the_worker_allows_for_skew() -> None:
    late = simulate([Arrival(0.0, deadline_s=0.015)], delays=Delays(0.001, 0.002, 0.003, allowance_s=0.1))
    (fate,) = late.fates
    assert (fate.end, fate.in_time) == (End.ANSWERED, False)
    assert fate.latency_s == pytest.approx(0.017)


arrivals = st.builds(
    Arrival,
    st.floats(0, 0.2),
    st.sampled_from(Lane),
    st.integers(1, 6),
    deadline_s=st.none() | st.floats(0.001, 0.2),
    bucket=st.sampled_from(["a", "b"]),
    tenant=st.sampled_from([None, "t"]),
)


@given(st.lists(arrivals, max_size=60), st.integers(1, 3), st.integers(1, 20))
def test_each_request_ends_once_and_runners_never_overlap(drawn: list[Arrival], replicas: int, requests: int) -> None:
    simulated = simulate(sorted(drawn, key=lambda each: each.at_s), replicas=replicas, requests=requests)
    assert len(simulated.fates) == len(drawn)
    assert all(fate.end is not End.WAITING for fate in simulated.fates)
    assert sum(fate.end is End.ANSWERED for fate in simulated.fates) == sum(run.requests for run in simulated.runs)
    edges = sorted([(run.began, 1) for run in simulated.runs] + [(run.began + run.run_s, -1) for run in simulated.runs])
    running = 0
    for _, change in edges:
        running += change
        assert running <= replicas


def test_the_summary_counts_every_request_once() -> None:
    drawn = [Arrival(number / 1000, deadline_s=0.03, tenant=str(number % 2)) for number in range(500)]
    summary = summarize(simulate(drawn))
    whole = summary.all
    assert whole.requests == 500 == sum(share.requests for share in summary.tenants.values())
    assert whole.requests == round(whole.in_time * 500) + whole.missed
    assert 0.9 < summary.busy <= 1.0


def test_a_formula_is_read_in_milliseconds() -> None:
    assert formula_of("8 + 0.5*rows") == Formula(0.008, 0.0005)
    assert formula_of("8+.5*cost").predict_s((), 1, 10.0) == pytest.approx(0.013)
    with pytest.raises(ValueError, match="is no run time"):
        formula_of("rows*2")


def test_drawn_run_times_have_the_spread_that_was_learned() -> None:
    from random import Random

    learned = RunTimes()
    for number in range(400):
        learned.observe((), 4, 4.0, 0.010 if number % 10 else 0.013)
    random = Random(1)
    drawn = sorted(Learned(learned).draw_s((), 4, 4.0, random) for _ in range(1000))
    assert drawn[500] == pytest.approx(0.010, rel=0.1)
    assert drawn[980] == pytest.approx(0.013, rel=0.1)
