"""The learned latency: it follows what it sees, forgets, and answers within bounds whatever it has seen."""

import itertools
import math
import random
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.run_times import RunTimes, sizes_up_to

BUCKET = (("x", (224, 224)),)
SIZES = (1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64)

Seconds = Callable[[int], float]


def linear(rows: int) -> float:
    return 0.005 + 0.001 * rows


def learned(seconds: Seconds = linear, runs: int = 400, noise: float = 0.05, bucket: object = BUCKET) -> RunTimes:
    chance = random.Random(7)
    times = RunTimes()
    for _ in range(runs):
        rows = chance.choice(SIZES)
        times.observe(bucket, rows, rows, seconds(rows) * chance.lognormvariate(0.0, noise))
    return times


def runs_until(times: RunTimes, seconds: Seconds, near: float, rows: int = 16) -> int:
    """Runs of one size until its mean is within a share of `near` of the truth."""
    chance = random.Random(3)
    for runs in range(1000):
        if abs(times.mean_s(BUCKET, rows, rows) / seconds(rows) - 1.0) <= near:
            return runs
        times.observe(BUCKET, rows, rows, seconds(rows) * chance.lognormvariate(0.0, 0.05))
    return 1000


def test_nothing_is_predicted_while_nothing_is_known() -> None:
    times = RunTimes()
    assert times.predict_s(BUCKET, 4, 4.0) == times.mean_s(BUCKET, 4, 4.0) == 0.0
    assert times.best_rows(BUCKET, 64) == 64


@pytest.mark.parametrize("rows", [1, 4, 20, 40, 64, 128])
def test_the_mean_is_near_the_truth_also_for_sizes_between_and_beyond_those_seen(rows: int) -> None:
    assert learned().mean_s(BUCKET, rows, rows) == pytest.approx(linear(rows), rel=0.07)


@pytest.mark.parametrize(("quantile", "sigmas"), [(0.5, 0.0), (0.95, 1.645), (0.99, 2.326)])
def test_the_quantiles_are_near_the_truth(quantile: float, sigmas: float) -> None:
    predicted = learned(noise=0.1).predict_s(BUCKET, 16, 16, quantile)
    assert predicted == pytest.approx(linear(16) * math.exp(0.1 * sigmas), rel=0.1)


def test_times_that_are_no_straight_line_are_learned_as_they_are() -> None:
    def steps(rows: int) -> float:
        return 0.01 * math.ceil(rows / 16)

    times = learned(steps, runs=2000)
    for rows in (16, 32, 48, 64):
        assert times.mean_s(BUCKET, rows, rows) == pytest.approx(steps(rows), rel=0.08)


def test_one_size_says_something_of_the_others() -> None:
    times = RunTimes()
    for _ in range(20):
        times.observe(BUCKET, 8, 8, 0.010)
    assert 0.004 < times.mean_s(BUCKET, 1, 1) < 0.010
    assert 0.010 < times.mean_s(BUCKET, 32, 32) < 0.041


@pytest.mark.parametrize("factor", [0.5, 2.0, 8.0, 60.0])
def test_drift_is_followed_within_fifty_runs(factor: float) -> None:
    assert runs_until(learned(), lambda rows: factor * linear(rows), near=0.08) <= 50


def test_drift_seen_at_one_size_holds_for_the_others() -> None:
    times = learned()
    for _ in range(60):
        times.observe(BUCKET, 16, 16, 2.0 * linear(16))
    assert times.mean_s(BUCKET, 64, 64) == pytest.approx(2.0 * linear(64), rel=0.1)


@pytest.mark.parametrize("runs", [3, 30, 300])
def test_one_stall_hardly_moves_the_predictions(runs: int) -> None:
    times = learned(runs=runs)
    before = times.predict_s(BUCKET, 16, 16)
    times.observe(BUCKET, 16, 16, 100.0 * linear(16))
    for _ in range(3):
        times.observe(BUCKET, 16, 16, linear(16))
    assert times.predict_s(BUCKET, 16, 16) < 2.0 * before


def test_of_a_stall_the_mean_learns_no_more_than_of_a_slow_run() -> None:
    times = learned()
    before = times.mean_s(BUCKET, 16, 16)
    times.observe(BUCKET, 16, 16, 100.0 * linear(16))
    assert times.mean_s(BUCKET, 16, 16) == pytest.approx(before, rel=0.08)


def test_a_slow_first_run_is_forgotten_at_the_second() -> None:
    times = RunTimes()
    times.observe(BUCKET, 8, 8, 3.0)
    times.observe(BUCKET, 8, 8, 0.01)
    assert times.mean_s(BUCKET, 8, 8) == pytest.approx(0.01, rel=0.01)


def test_an_unknown_bucket_borrows_from_the_whole_model_by_cost() -> None:
    chance, times = random.Random(1), RunTimes()
    for _ in range(600):
        length, rows = chance.choice([32, 64, 256]), chance.choice(SIZES)
        times.observe(("ids", (length,)), rows, rows * length, 0.002 + 1e-5 * rows * length)
    assert times.mean_s(("ids", (128,)), 8, 8 * 128) == pytest.approx(0.002 + 1e-5 * 1024, rel=0.1)


def test_the_first_run_of_a_bucket_is_held_against_the_whole_model() -> None:
    times = learned()
    times.observe("new", 16, 16, 100.0 * linear(16))
    assert times.mean_s("new", 16, 16) < 3.0 * linear(16)


def test_cost_counts_within_a_bucket_where_times_follow_it() -> None:
    chance, times = random.Random(1), RunTimes()
    for _ in range(800):
        rows = chance.choice(SIZES)
        cost = sum(chance.randint(5, 120) for _ in range(rows))
        times.observe(BUCKET, rows, cost, 0.002 + 2e-5 * cost)
    assert times.mean_s(BUCKET, 16, 600) == pytest.approx(0.014, rel=0.1)
    assert times.mean_s(BUCKET, 16, 1800) == pytest.approx(0.038, rel=0.1)


def test_cost_is_passed_over_within_a_bucket_where_times_do_not_follow_it() -> None:
    chance, times = random.Random(1), RunTimes()
    for _ in range(1500):
        rows = chance.choice(SIZES)
        times.observe(BUCKET, rows, sum(chance.randint(5, 120) for _ in range(rows)), linear(rows))
    assert times.mean_s(BUCKET, 16, 600) == pytest.approx(linear(16), rel=0.1)
    assert times.mean_s(BUCKET, 16, 1800) == pytest.approx(linear(16), rel=0.15)


def test_the_best_size_is_where_throughput_is_highest() -> None:
    times = learned(lambda rows: 0.0005 * rows * (1.0 if rows <= 8 else 1.0 + 0.01 * (rows - 8)) + 0.0005, noise=0.01)
    assert 6 <= times.best_rows(BUCKET, 64) <= 16


def test_of_sizes_that_are_nearly_as_good_the_smaller_is_the_best() -> None:
    assert learned(lambda rows: 0.001 * rows, noise=0.01).best_rows(BUCKET, 64) <= 3


def test_the_best_size_is_the_limit_where_only_the_batch_costs() -> None:
    assert learned(lambda rows: 0.010, noise=0.01).best_rows(BUCKET, 50) == 50


def test_the_bucket_not_seen_for_longest_is_forgotten_first() -> None:
    times = RunTimes(most_buckets=2)
    for bucket in ("a", "b", "a", "c"):
        for _ in range(4):
            times.observe(bucket, 1, 1, {"a": 0.1, "b": 0.3, "c": 0.2}[bucket])
    assert len(times) == 2
    assert times.mean_s("a", 1, 1) == pytest.approx(0.1)
    assert times.mean_s("b", 1, 1) < 0.25


def test_sizes_worth_telling_apart_end_at_the_limit() -> None:
    assert sizes_up_to(1) == [1]
    assert sizes_up_to(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]


def test_what_is_trusted_less_is_replaced_by_a_few_runs() -> None:
    def errors(times: RunTimes) -> float:
        for rows in (1, 8, 64) * 6:
            times.observe(BUCKET, rows, rows, 0.030)
        return sum(abs(times.mean_s(BUCKET, rows, rows) - 0.030) for rows in (1, 8, 64))

    trusting, doubting = learned(), learned()
    doubting.trust_less()
    assert errors(doubting) < 0.8 * errors(trusting)


def test_the_state_names_buckets_alike_in_every_process() -> None:
    code = (
        "import sys, msgspec; from workers.run_times import RunTimes; times = RunTimes();"
        "times.observe((('x', (224, 224)),), 4, 4.0, 0.25);"
        "sys.stdout.buffer.write(msgspec.msgpack.encode(times.to_state()))"
    )
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=15).stdout
    times = RunTimes.from_state(msgspec.msgpack.decode(written, strict=False))
    assert times.mean_s(BUCKET, 4, 4.0) == pytest.approx(0.25)


def test_a_bucket_without_a_lasting_name_is_not_written() -> None:
    times = RunTimes()
    times.observe(object(), 1, 1.0, 0.1)
    assert times.to_state()["buckets"] == {}


whatever = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=30)
@given(whatever)
def test_any_foreign_state_gives_one_that_knows_nothing(state: object) -> None:
    assert RunTimes.from_state(state).predict_s(BUCKET, 4, 4.0) == 0.0


@settings(max_examples=60)
@given(st.data())
def test_a_state_with_any_broken_value_never_raises_and_predicts_within_bounds(data: st.DataObject) -> None:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(learned(runs=40).to_state()), strict=False)
    part: object = state
    for _ in range(12):
        keys = list(part if isinstance(part, dict) else range(len(part)))  # type: ignore[arg-type]
        key = data.draw(st.sampled_from(keys))
        inner = part[key]  # type: ignore[index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            part[key] = data.draw(whatever)  # type: ignore[index]
            break
        part = inner
    read = RunTimes.from_state(state)
    read.observe(BUCKET, 8, 8, 0.01)
    predicted = read.predict_s(BUCKET, 4, 4.0)
    assert 0.0 <= predicted < math.inf
    read.to_state()


observations = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(-2, 4096) | st.integers(),
        st.floats() | st.floats(0.1, 1e4),
        st.floats() | st.floats(1e-4, 10.0),
    ),
    max_size=120,
)


def seen(runs: list[tuple[int, int, float, float]], most_buckets: int = 4) -> RunTimes:
    times = RunTimes(most_buckets)
    for bucket, rows, cost, run_s in runs:
        times.observe(bucket, rows, cost, run_s)
    return times


@settings(max_examples=60)
@given(observations, st.integers(0, 6), st.integers(), st.floats(), st.floats(0.01, 0.999))
def test_predictions_are_finite_and_not_negative_whatever_was_seen(
    runs: list[tuple[int, int, float, float]], bucket: int, rows: int, cost: float, quantile: float
) -> None:
    times = seen(runs)
    assert 0.0 <= times.predict_s(bucket, rows, cost, quantile) < math.inf
    assert 0.0 <= times.mean_s(bucket, rows, cost) < math.inf
    assert 1 <= times.best_rows(bucket, 100) <= 100


@settings(max_examples=60)
@given(observations, st.integers(0, 6), st.lists(st.integers(1, 5000), min_size=2), st.floats(0.01, 100.0))
def test_more_rows_are_never_predicted_to_take_less(
    runs: list[tuple[int, int, float, float]], bucket: int, sizes: list[int], cost_of_row: float
) -> None:
    times = seen(runs)
    predicted = [times.predict_s(bucket, rows, rows * cost_of_row) for rows in sorted(sizes)]
    at_one_cost = [times.predict_s(bucket, rows, 100.0) for rows in sorted(sizes)]
    for line in (predicted, at_one_cost):
        assert all(after >= before * (1 - 1e-9) for before, after in itertools.pairwise(line))


@settings(max_examples=60)
@given(observations, st.integers(1, 5))
def test_buckets_and_what_is_written_of_them_stay_bounded(
    runs: list[tuple[int, int, float, float]], most_buckets: int
) -> None:
    times = seen(runs, most_buckets)
    assert len(times) <= most_buckets
    assert len(msgspec.msgpack.encode(times.to_state())) < 3000 * (most_buckets + 1)


@settings(max_examples=60)
@given(observations)
def test_a_state_read_again_knows_the_same(runs: list[tuple[int, int, float, float]]) -> None:
    times = seen(runs)
    state = times.to_state()
    read = RunTimes.from_state(msgspec.msgpack.decode(msgspec.msgpack.encode(state), strict=False))
    assert read.to_state() == state
    for bucket in range(7):
        assert read.predict_s(bucket, 7, 33.0) == times.predict_s(bucket, 7, 33.0)
