"""How long the store is asked for the inputs of a request."""

import pytest

from workers.claims import FETCH_S, fetch_s


@pytest.mark.parametrize("expires", [101.0, 100.001, 100.0, 99.0])
def test_the_deadline_ends_a_fetch_before_the_stores_own_time_is_over(expires: float) -> None:
    assert fetch_s(expires, 100.0) > max(0.0, expires - 100.0) + 0.1


@pytest.mark.parametrize("expires", [None, 100.0 + FETCH_S, 1e9])
def test_no_object_is_waited_for_longer_than_the_longest_time(expires: float | None) -> None:
    assert fetch_s(expires, 100.0) == FETCH_S
