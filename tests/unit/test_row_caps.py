"""How many rows fit into memory is found out by few failures, and never forgotten for good."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.row_caps import DEADLY_QUIET_S, QUIET_S, UNKNOWN, RowCaps

SIZES = st.integers(2, 4096)
few = settings(max_examples=25)  # each of them is hours of traffic


class Model:
    """A model whose memory holds `limit` rows, asked for `demand` rows once a second; a failed batch runs in halves."""

    def __init__(self, limit: int, demand: int, caps: RowCaps | None = None) -> None:
        self.caps = caps or RowCaps()
        self.limit = limit
        self.demand = demand
        self.failed_at: list[float] = []
        self.now = 0.0

    def serve(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self._run(min(self.demand, self.caps.rows("b")))

    def _run(self, rows: int) -> None:
        if rows <= self.limit:
            self.caps.passed("b", rows, self.now)
            return
        self.failed_at.append(self.now)
        for half in (rows // 2, rows - rows // 2):
            self._run(half)
        self.caps.failed("b", rows, self.now)


def fits(model: Model) -> bool:
    """Whether the cap is what the memory holds, within a sixteenth."""
    cap, best = model.caps.rows("b"), min(model.limit, model.demand)
    return best - max(1, best // 16) - 1 <= cap <= best + 1 + best // 16 or (cap == UNKNOWN and model.demand <= best)


def test_a_bucket_that_never_failed_has_no_cap() -> None:
    caps = RowCaps()
    caps.passed("b", 32, 0.0)
    assert (caps.rows("b"), len(caps)) == (UNKNOWN, 0)


def test_a_failure_lowers_the_cap_of_its_bucket_at_once_and_of_no_other() -> None:
    caps = RowCaps()
    caps.failed("b", 32, 0.0)
    assert (caps.rows("b"), caps.rows("c"), len(caps)) == (16, UNKNOWN, 1)


@given(SIZES, SIZES)
def test_after_the_first_batch_the_next_one_fits(limit: int, demand: int) -> None:
    model = Model(limit, demand)
    model.serve(1)
    assert min(demand, model.caps.rows("b")) <= limit


@few
@given(SIZES, SIZES)
def test_in_an_hour_the_cap_is_found_at_the_cost_of_a_few_failures(limit: int, demand: int) -> None:
    model = Model(limit, demand)
    model.serve(1)
    first = len(model.failed_at)
    model.serve(3600)
    assert fits(model)
    assert len(model.failed_at) - first <= math.log2(demand) + math.log2(3600 / QUIET_S)


@few
@given(SIZES, SIZES)
def test_later_it_fails_about_once_an_hour(limit: int, demand: int) -> None:
    model = Model(limit, demand)
    model.serve(3 * 3600)
    before = len(model.failed_at)
    model.serve(3 * 3600)
    assert len(model.failed_at) - before <= 4


@few
@given(SIZES, SIZES, SIZES)
def test_a_limit_that_moves_is_followed(limit: int, other: int, demand: int) -> None:
    model = Model(limit, demand)
    model.serve(600)
    model.limit = other
    model.serve(4 * 3600)
    assert fits(model)


def test_memory_that_is_free_again_leaves_no_cap_behind() -> None:
    model = Model(5, 32)
    model.serve(60)
    model.limit = 32
    model.serve(3600)
    assert len(model.caps) == 0


def test_a_larger_batch_is_tried_only_while_batches_are_as_large_as_allowed() -> None:
    caps = RowCaps()
    caps.failed("b", 32, 0.0)
    caps.passed("b", 8, 1000.0)
    assert caps.rows("b") == 16
    caps.passed("b", 9, 1000.0)
    assert caps.rows("b") == 24


def test_the_pause_doubles_with_each_failed_trial() -> None:
    model = Model(16, 32)
    model.serve(600)
    pauses = [later - earlier for earlier, later in zip(model.failed_at, model.failed_at[1:], strict=False)]
    assert pauses[:4] == [QUIET_S * doubled + 1.0 for doubled in (1, 2, 4, 8)]


def test_what_ended_the_runner_is_not_tried_again_soon() -> None:
    caps = RowCaps()
    caps.failed("b", 32, 0.0, deadly=True)
    caps.passed("b", 16, DEADLY_QUIET_S - 1)
    assert caps.rows("b") == 16
    caps.passed("b", 16, DEADLY_QUIET_S)
    assert caps.rows("b") == 24


def test_a_batch_put_together_before_the_cap_came_down_ends_no_trial() -> None:
    caps = RowCaps()
    caps.failed("b", 32, 0.0)
    caps.passed("b", 16, QUIET_S)
    caps.failed("b", 32, QUIET_S)
    assert caps.rows("b") == 24


def test_one_row_is_always_allowed() -> None:
    caps = RowCaps()
    for now in range(9):
        caps.failed("b", 1, float(now))
    assert caps.rows("b") == 1


def test_the_buckets_that_failed_longest_ago_are_forgotten_first() -> None:
    caps = RowCaps(max_buckets=2)
    for bucket in "abac":
        caps.failed(bucket, 8, 0.0)
    assert [caps.rows(bucket) == UNKNOWN for bucket in "abc"] == [False, True, False]
