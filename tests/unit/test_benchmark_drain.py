"""The benchmarks' arithmetic: what samples of a drain amount to, and when a gate holds."""

import numpy as np
import pytest

from benchmarks.drain import Drain, Sample, TooShort, measure
from benchmarks.figures import Drained, Figures, Plan, RoundTrip
from benchmarks.gates import drain_gates, round_trip_gate
from benchmarks.records import Answer, WrongReply, check_answers

PLAN = Plan("mlp", 1000, 64, 1, 3, ("naive", "headrace"))


def steady(replies: list[int]) -> list[Sample]:
    """A sample every 0.1 s, each reply costing 50 us."""
    return [Sample(10 + 0.1 * place, count, 3 + 50e-6 * count) for place, count in enumerate(replies)]


def test_a_drain_is_measured_from_the_first_sample_with_replies_to_the_last_without_all() -> None:
    drain = measure(steady([0, 0, 100, 300, 500, 700, 900, 1000, 1000]), total=1000)
    assert drain == Drain(pytest.approx(2000), pytest.approx(50), 800)


def test_a_drain_by_several_workers_ends_before_the_first_runs_dry() -> None:
    drain = measure(steady([100, 300, 500, 700, 900, 940, 990, 1000]), total=1000, shares=(0.0, 0.9))
    assert drain.replies == 600


def test_a_drain_that_few_samples_saw_is_no_figure() -> None:
    with pytest.raises(TooShort, match="--requests"):
        measure(steady([0, 400, 800, 1000]), total=1000)


def test_a_drain_that_stood_still_is_no_figure() -> None:
    with pytest.raises(TooShort):
        measure(steady([0, 5, 5, 5, 5, 1000]), total=1000)


@pytest.mark.parametrize(("cpu_us", "per_s", "verdicts"), [(40, 101, [True, True]), (41, 99, [False, False])])
def test_the_worker_must_cost_no_more_than_the_naive_loop_and_be_no_slower(
    cpu_us: float, per_s: float, verdicts: list[bool]
) -> None:
    naive = Figures("naive", [90, 100, 110], [39, 40, 41], [64, 64, 64])
    headrace = Figures("headrace", [per_s] * 3, [cpu_us] * 3, [64, 64, 64])
    gates = drain_gates(Drained(PLAN, Figures("raw", [1000]), [naive, headrace]))
    assert [gate.holds for gate in gates] == verdicts


def test_a_heavy_model_is_held_to_raw_on_the_same_cores() -> None:
    plan = Plan("minilm", 1000, 16, 2, 1, ("headrace",))
    (gate,) = drain_gates(Drained(plan, Figures("raw", [500]), [Figures("headrace", [424], [4000], [16])]))
    assert gate.ratio == pytest.approx(0.848)
    assert not gate.holds


def test_a_run_without_headrace_has_no_gates() -> None:
    assert drain_gates(Drained(PLAN, Figures("raw", [1000]), [Figures("naive", [1], [1], [1])])) == []


def test_a_round_trip_is_held_to_four_echoes() -> None:
    gate = round_trip_gate(RoundTrip(echo_s=[0.001, 0.001, 0.5], headrace_s=[0.0039, 0.004, 0.9]))
    assert gate.holds


EXPECTED = {"y": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)}


def test_right_answers_pass() -> None:
    check_answers([Answer(0, {"y": EXPECTED["y"][0]}), Answer(513, {"y": EXPECTED["y"][1]})], EXPECTED)


def test_a_wrong_answer_spoils_the_measurement() -> None:
    with pytest.raises(WrongReply, match="Request 1 got a wrong y"):
        check_answers([Answer(1, {"y": EXPECTED["y"][0]})], EXPECTED)


def test_an_answer_given_twice_spoils_the_measurement() -> None:
    answer = Answer(0, {"y": EXPECTED["y"][0]})
    with pytest.raises(WrongReply, match="answered twice"):
        check_answers([answer, answer], EXPECTED)
