"""Requests of smaller buckets ride in a batch of a larger one where that pays, and in no other way than it may."""

import math

from hypothesis import given
from hypothesis import strategies as st
from made_works import backlog_of, ids, work

from benchmarks.nearest_study import DEVICES, mean
from workers.backlog import Backlog
from workers.nearest import pays, smaller
from workers.runners.policies import BatchPolicy
from workers.shapes import Bucket
from workers.work import Batch, Work

LONG, MIDDLE, SHORT = (Bucket(((2,),), (size,)) for size in (128, 64, 16))
OTHER = Bucket(((3,),), (16,))
GPU, CPU = DEVICES[1], DEVICES[0]


class Known:
    """Run times of a device, known exactly."""

    def __init__(self, fixed_s: float, token_s: float) -> None:
        self.fixed_s, self.token_s = fixed_s, token_s

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        return self.fixed_s + self.token_s * rows * (bucket.sizes[0] if isinstance(bucket, Bucket) else 1)


FLAT, STEEP = Known(0.004, 5e-7), Known(0.0005, 3e-5)


def sized(bucket: Bucket, id: str = "a", **kinds: object) -> Work:
    rows = int(kinds.get("rows", 1))  # type: ignore[call-overload]
    return work(id, bucket=bucket, nbytes=8 * rows * bucket.sizes[0], **kinds)  # type: ignore[arg-type]


def taken(*works: Work, run_times: Known = FLAT, rows: int = 8, **bounds: int) -> tuple[Backlog, Batch]:
    """The first is the most urgent one, so that its bucket leads."""
    backlog = backlog_of(*works, run_times=run_times, rows=rows, **bounds)
    return backlog, backlog.take(0.0)


def test_short_requests_ride_where_a_run_of_their_own_would_cost_far_more() -> None:
    backlog, batch = taken(sized(LONG, "long"), sized(SHORT, "short"), sized(MIDDLE, "middle"))
    assert ids(batch) == ["long", "middle", "short"]
    assert (batch.rows, len(backlog)) == (3, 0)


def test_they_wait_where_padding_costs_as_much_as_what_is_real() -> None:
    _, batch = taken(sized(LONG, "long"), sized(SHORT, "short"), run_times=STEEP)
    assert ids(batch) == ["long"]


def test_long_requests_never_ride_in_a_shorter_batch_nor_those_of_other_shapes() -> None:
    _, batch = taken(sized(SHORT, "short"), sized(LONG, "long"), sized(OTHER, "other"))
    assert ids(batch) == ["short"]
    assert smaller([SHORT, LONG, OTHER, (), MIDDLE], LONG) == [MIDDLE, SHORT]


def test_they_count_as_requests_of_the_larger_bucket_from_then_on() -> None:
    _, batch = taken(sized(LONG, cost=128.0), sized(SHORT, rows=2, cost=32.0))
    rider = batch.works[1]
    assert (rider.bucket, rider.cost) == (LONG, 256.0)
    assert rider.nbytes >= 2 * 8 * 128


def test_who_does_not_fit_waits() -> None:
    for bounds in ({"rows": 4}, {"max_bytes": 8 * 128 * 5}):
        _, batch = taken(sized(LONG, "long", rows=2), sized(SHORT, rows=3), **bounds)
        assert ids(batch) == ["long"]


def test_nobody_is_made_late_by_riders() -> None:
    tight = sized(LONG, "long", expires=0.0041)
    assert ids(taken(tight, sized(SHORT))[1]) == ["long"]
    assert ids(taken(sized(LONG, "long", expires=0.1), sized(SHORT, "short", expires=9.0))[1]) == ["long", "short"]


def test_a_tenant_that_crowds_its_bucket_does_not_ride_with_another() -> None:
    crowd = [sized(SHORT, tenant="crowd") for _ in range(6)]
    assert ids(taken(sized(LONG, "long", tenant="quiet"), *crowd)[1]) == ["long"]
    assert len(taken(sized(LONG, "long", tenant="crowd"), *crowd)[1].works) == 7


def test_order_is_kept_where_the_model_wants_it() -> None:
    policy = BatchPolicy(preserve_ordering=True)
    backlog = backlog_of(sized(LONG, "long"), sized(SHORT, offset=1), run_times=FLAT, rows=8, policy=policy)
    assert ids(backlog.take(0.0)) == ["long"]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_riding_never_costs_more_than_the_run_that_it_saves(own_s: float, before_s: float, more_s: float) -> None:
    if pays(own_s, before_s, before_s + more_s):
        assert more_s <= own_s * (1 + 1e-9) + 1e-12
        assert before_s > 0


@given(
    st.lists(st.tuples(st.sampled_from([16, 64, 128]), st.integers(1, 3)), min_size=1, max_size=30),
    st.floats(0, 0.01),
    st.floats(0, 1e-4),
    st.integers(3, 16),
)
def test_each_request_is_in_one_batch_within_its_bounds(
    asked: list[tuple[int, int]], fixed_s: float, token_s: float, rows: int
) -> None:
    works = [sized(Bucket(((2,),), (size,)), str(n), rows=count) for n, (size, count) in enumerate(asked)]
    backlog = backlog_of(*works, run_times=Known(fixed_s, token_s), rows=rows, max_bytes=1 << 30, max_requests=1 << 20)
    seen: list[str] = []
    while len(backlog):
        batch = backlog.take(0.0)
        seen += ids(batch)
        assert batch.rows == sum(each.rows for each in batch.works) <= rows
        assert len({each.bucket for each in batch.works}) == 1
    assert sorted(seen, key=int) == [str(n) for n in range(len(works))]
    assert backlog.nbytes == 0


def test_latencies_fall_on_a_gpu_and_stay_on_a_cpu() -> None:
    apart, riding = (mean(GPU, 0.3, apart=each, requests=3000) for each in (True, False))
    assert riding.p50_ms < 0.8 * apart.p50_ms
    assert riding.p99_ms < apart.p99_ms
    alone, beside = (mean(CPU, 0.3, apart=each, requests=800) for each in (True, False))
    assert math.isclose(alone.p99_ms, beside.p99_ms, rel_tol=0.1)
