"""The benchmarks' arithmetic: what samples of a drain amount to, and when a gate holds."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.drain import Drain, Sample, TooShort, measure
from benchmarks.figures import Drained, Figures, Plan, RoundTrip
from benchmarks.gates import BOUNDS, drain_gates, held_to_raw, round_trip_gate
from benchmarks.machine import Machine
from benchmarks.others import Taken
from benchmarks.records import Answer, WrongReply, check_answers
from benchmarks.report import Report, finish
from benchmarks.variants import MEASURED, able

PLAN = Plan("mlp", 1000, 64, 1, 3, ("naive", "headrace", "headrace batch 256"))


def steady(replies: list[int]) -> list[Sample]:
    """A sample every 0.1 s, each reply costing 50 us, and 20 of Kafka; a tenth of each core is stolen."""
    return [
        Sample(10 + 0.1 * place, count, 3 + 50e-6 * count, Taken(7 + 20e-6 * count, 4 + 0.01 * place))
        for place, count in enumerate(replies)
    ]


def test_a_drain_is_measured_from_the_first_sample_with_replies_to_the_last_without_all() -> None:
    drain = measure(steady([0, 0, 100, 300, 500, 700, 900, 1000, 1000]), total=1000)
    assert (drain.per_s, drain.cpu_us, drain.replies) == (pytest.approx(2000), pytest.approx(50), 800)
    assert (drain.whole_per_s, drain.kafka_us, drain.stolen) == pytest.approx((1800, 20, 0.1))


def test_a_drain_by_several_workers_ends_before_the_first_runs_dry() -> None:
    drain = measure(steady([100, 300, 500, 700, 900, 940, 990, 1000]), total=1000, shares=(0.0, 0.9))
    assert drain.replies == 600


def test_a_drain_that_few_samples_saw_is_no_figure() -> None:
    with pytest.raises(TooShort, match="--rows"):
        measure(steady([0, 400, 800, 1000]), total=1000)


def test_a_drain_that_stood_still_is_no_figure() -> None:
    with pytest.raises(TooShort):
        measure(steady([0, 5, 5, 5, 5, 1000]), total=1000)


def test_records_of_several_rows_are_counted_by_rows() -> None:
    assert Drain(10, 640, 5, 8, 128, 0.1).of_rows(64) == Drain(640, 10, 5, 512, 2, 0.1)


RAW = Figures("raw", [1000] * 3)
NAIVE = Figures("naive", [90, 100, 110], [39, 40, 41], [64, 64, 64])


@pytest.mark.parametrize(("cpu_us", "per_s", "verdicts"), [(22, 250, [True, True]), (23, 249, [False, False])])
def test_the_worker_is_held_to_the_naive_loop_in_cpu_and_in_rate(
    cpu_us: float, per_s: float, verdicts: list[bool]
) -> None:
    headrace = Figures("headrace", [per_s] * 3, [cpu_us] * 3, [64, 64, 64])
    gates = drain_gates(Drained(PLAN, RAW, [NAIVE, headrace]))
    assert [gate.holds for gate in gates] == verdicts


def test_what_slows_a_whole_run_moves_no_ratio() -> None:
    headrace = Figures("headrace", [360, 200, 440], [19, 20, 21])
    drained = Drained(PLAN, RAW, [Figures("naive", [90, 50, 110], [39, 40, 41]), headrace])
    assert drain_gates(drained)[1].ratio == 4


def test_each_variant_has_its_own_bound() -> None:
    larger = Figures("headrace batch 256", [379] * 3, [9] * 3, [256] * 3)
    (gate,) = drain_gates(Drained(PLAN, RAW, [NAIVE, larger]))
    assert (gate.bound, gate.holds) == (3.8, False)


def test_a_bound_that_nothing_was_measured_for_is_told() -> None:
    drained = Drained(PLAN, RAW, [NAIVE, Figures("headrace", [300] * 3, [20] * 3, [64] * 3)])
    left = Report(Machine("cpu", 2, 0.0, "3", "4", "1", "0"), [drained]).open_bounds
    assert "mlp, librdkafka: rows/s, of naive's" in map(str, left)


def test_a_system_that_failed_fails_the_run_though_all_gates_hold() -> None:
    good = Drained(PLAN, RAW, [NAIVE, Figures("headrace", *[[each] * 3 for each in (300, 20, 64, 300, 9, 0.0)])])
    machine = Machine("cpu", 2, 0.0, "3", "4", "1", "0")
    assert finish(Report(machine, [replace(good, systems=good.systems[1:])]), None) == 0
    assert finish(Report(machine, [replace(good, systems=good.systems[1:], failed=["mlp, naive: it died"])]), None) == 1


def test_a_heavy_model_is_held_to_raw_on_the_same_cores() -> None:
    plan = Plan("minilm", 1000, 16, 2, 1, ("headrace workers 2",))
    (gate,) = drain_gates(Drained(plan, Figures("raw", [500]), [Figures("headrace workers 2", [464], [4000], [16])]))
    assert gate.ratio == pytest.approx(0.928)
    assert not gate.holds


def test_a_heavy_model_is_held_to_what_raw_did_beside_it() -> None:
    plan = Plan("minilm", 1000, 16, 2, 2, ("headrace workers 2",))
    workers = Figures("headrace workers 2", [465, 372], [4000] * 2, [16] * 2, raw_per_s=[500, 400])
    (gate,) = drain_gates(Drained(plan, Figures("raw", [500, 500]), [workers]))
    assert gate.ratio == pytest.approx(0.93)
    assert held_to_raw("minilm") == {"headrace workers 2", "headrace replicas 2"}


def test_a_run_without_headrace_has_no_gates() -> None:
    assert drain_gates(Drained(PLAN, RAW, [Figures("naive", [1], [1], [1])])) == []


def test_a_round_trip_is_held_to_two_echoes() -> None:
    gate = round_trip_gate(RoundTrip(echo_s=[0.001, 0.001, 0.5], headrace_s=[0.0019, 0.002, 0.9]))
    assert gate.holds


def test_a_variant_that_cannot_run_here_says_why() -> None:
    kept, reasons = able(("naive", "headrace", "headrace replicas 2", "librdkafka"), settings=())
    assert kept == ("naive", "headrace")
    assert [reason.partition(":")[0] for reason in reasons] == ["headrace replicas 2", "librdkafka"]


def test_every_bound_is_measured_by_the_short_run() -> None:
    assert [str(bound) for bound in BOUNDS if bound.system not in MEASURED[bound.model]] == []


EXPECTED = {"y": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)}


def test_right_answers_pass() -> None:
    check_answers([Answer(0, {"y": EXPECTED["y"][:1]}), Answer(513, {"y": EXPECTED["y"][1:]})], EXPECTED)


def test_a_wrong_row_of_a_large_record_spoils_the_measurement() -> None:
    check_answers([Answer(256, {"y": EXPECTED["y"]})], EXPECTED, rows=2)
    with pytest.raises(WrongReply, match="wrong y"):
        check_answers([Answer(256, {"y": EXPECTED["y"][::-1]})], EXPECTED, rows=2)


def test_a_wrong_answer_spoils_the_measurement() -> None:
    with pytest.raises(WrongReply, match="Request 1 got a wrong y"):
        check_answers([Answer(1, {"y": EXPECTED["y"][:1]})], EXPECTED)


def test_an_answer_given_twice_spoils_the_measurement() -> None:
    answer = Answer(0, {"y": EXPECTED["y"][:1]})
    with pytest.raises(WrongReply, match="answered twice"):
        check_answers([answer, answer], EXPECTED)
