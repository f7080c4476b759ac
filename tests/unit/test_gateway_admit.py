"""Admission is bounded in requests and bytes, and every place is given back."""

import pytest

from gateway.admit import Admission
from producer_sdk.errors import QueueFull


def admission(max_inflight: int = 9, per_model: int = 9, max_bytes: int = 9) -> Admission:
    return Admission(max_inflight=max_inflight, max_inflight_per_model=per_model, max_body_bytes_held=max_bytes)


def test_requests_past_the_limit_are_refused_until_one_leaves() -> None:
    door = admission(max_inflight=1)
    door.enter()
    with pytest.raises(QueueFull, match="the gateway holds 1 requests"):
        door.enter()
    door.leave()
    door.enter()


def test_a_full_model_leaves_room_for_others() -> None:
    door = admission(per_model=1)
    with door.slot("a"):
        with pytest.raises(QueueFull, match="model 'a' has 1 requests"), door.slot("a"):
            pass
        with door.slot("b"):
            assert door.inflight_by_model == {"a": 1, "b": 1}
    assert door.inflight_by_model == {}


def test_a_place_is_given_back_after_an_error() -> None:
    door = admission(per_model=1)
    with pytest.raises(RuntimeError), door.slot("a"):
        raise RuntimeError
    assert door.inflight_by_model == {}


def test_body_bytes_are_bounded_over_all_requests() -> None:
    door = admission(max_bytes=10)
    door.hold(6)
    with pytest.raises(QueueFull, match="6 bytes"):
        door.hold(5)
    door.drop(6)
    door.hold(10)
