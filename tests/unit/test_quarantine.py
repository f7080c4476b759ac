"""Inputs that failed not long ago are known again, and nothing else is."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import Code, InferenceFailed, RunnerCrashed
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Request
from workers import quarantine
from workers.quarantine import Quarantine

ERROR = InferenceFailed("cannot digest it")


def request(*values: float, id: str = "a") -> Request:
    return Request(id, {"x": Tensor.from_array(np.array([values], np.float32))})


def test_the_same_inputs_are_answered_with_their_error_and_told_since_when_and_how_long() -> None:
    kept = Quarantine(60.0)
    kept.add(request(1, 2), 8, ERROR, 100.0)
    error = kept.known(request(1, 2, id="b"), 8, 112.4)
    assert error is not None
    assert (error.code, type(error)) == (Code.INFERENCE_FAILED, InferenceFailed)
    assert error.message == "cannot digest it (the same inputs failed 12 s ago and are not run again for 60 s)"


def test_it_is_forgotten_after_its_time_and_empty_then() -> None:
    kept = Quarantine(60.0)
    kept.add(request(1), 4, ERROR, 100.0)
    assert kept.known(request(1), 4, 159.9) is not None
    assert kept.known(request(1), 4, 160.0) is None
    assert not kept


def test_a_second_failure_counts_anew_and_with_its_own_error() -> None:
    kept = Quarantine(60.0)
    for now, error in ((100.0, ERROR), (120.0, RunnerCrashed("it died"))):
        kept.add(request(1), 4, error, now)
    known = kept.known(request(1), 4, 170.0)
    assert known is not None
    assert (known.code, len(kept)) == (Code.RUNNER_CRASHED, 1)


def test_zero_seconds_turn_it_off() -> None:
    kept = Quarantine(0.0)
    kept.add(request(1), 4, ERROR, 100.0)
    assert not kept


def test_the_oldest_makes_room_for_the_newest() -> None:
    kept = Quarantine(60.0, max_entries=2)
    for n in (1, 2, 3):
        kept.add(request(n), 4, ERROR, 100.0 + n)
    assert [kept.known(request(n), 4, 110.0) is not None for n in (1, 2, 3)] == [False, True, True]
    assert len(kept) == 2


@pytest.mark.parametrize("size", [1000, 1008, 1024])
def test_a_stranger_is_not_read_as_a_whole(size: int) -> None:
    kept = Quarantine(60.0)
    kept.add(request(*range(size)), 4 * size, ERROR, 100.0)
    with patch.object(quarantine, "fingerprint", side_effect=AssertionError("it was read")):
        assert kept.known(request(*range(size - 1)), 4 * (size - 1), 101.0) is None
        assert kept.known(request(*range(1, size + 1)), 4 * size, 101.0) is None


def test_one_that_looks_like_an_offender_but_differs_in_a_byte_is_a_stranger() -> None:
    values = np.zeros(1000, np.float32)
    kept = Quarantine(60.0)
    kept.add(request(*values), 4000, ERROR, 100.0)
    values[1] = 1e-30
    assert kept.known(request(*values), 4000, 101.0) is None


@given(st.lists(st.tuples(st.sampled_from("ak"), st.integers(0, 5), st.integers(0, 30)), max_size=40))
def test_it_agrees_with_a_plain_table_whatever_is_asked(steps: list[tuple[str, int, int]]) -> None:
    kept, table, now = Quarantine(50.0, max_entries=3), dict[int, float](), 0.0
    for step, n, passed in steps:
        now += passed
        table = {m: since for m, since in table.items() if now - since < 50.0}
        if step == "a":
            table.pop(n, None)
            table[n] = now
            table = dict(list(table.items())[-3:])
            kept.add(request(n), 4, ERROR, now)
        else:
            assert (kept.known(request(n), 4, now) is not None) == (n in table)
    kept.known(request(0), 4, now + 50.0)
    assert len(kept) == 0
