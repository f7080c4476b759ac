"""Admission is bounded in requests and bytes, and every place is given back."""

import pytest

from gateway.admit import Admission, Queue, queue_of
from producer_sdk.announcements import Announcement, ModelState
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


def test_a_full_queue_refuses_its_own_priority_alone() -> None:
    door = admission()
    with door.slot("a", Queue(1, 1)):
        with pytest.raises(QueueFull, match="'a' has 1 requests of priority 1 waiting"), door.slot("a", Queue(1, 1)):
            pass
        with door.slot("a", Queue(0, 1)), door.slot("b", Queue(1, 1)):
            assert door.inflight_by_queue == {("a", 1): 1, ("a", 0): 1, ("b", 1): 1}
    assert door.inflight_by_queue == {}
    assert door.inflight_by_model == {}


@pytest.mark.parametrize(
    ("limits", "priority", "queue"),
    [
        ({}, 1, None),
        ({0: 5}, None, Queue(0, 5)),
        ({0: 5, 2: 7}, 2, Queue(2, 7)),
        ({0: 5, 2: 7}, 3, Queue(0, 5)),
        ({2: 7}, None, Queue(2, 7)),
        ({1: 7}, None, None),
        ({0: 5, 2: 7}, "2", Queue(2, 7)),
        ({0: 5, 2: 7}, 999, Queue(2, 7)),
    ],
)
def test_a_request_waits_in_the_queue_of_its_priority_else_in_that_of_the_default(
    limits: dict[int, int], priority: object, queue: Queue | None
) -> None:
    announced = Announcement(
        "w", "m", ("1",), ModelState.READY, 0, 1.0, queue_limits=limits, priority_levels=3, default_priority=2
    )
    assert queue_of(announced, priority) == queue
