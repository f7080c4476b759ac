"""A fetch that leaves partitions out does not wait for long: those have to wait for it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from producer_sdk._kafka_fetch import LEAST_WAIT_MS, shorten_waits

USUAL_MS = 500


class Fetcher:
    """What of aiokafka's Fetcher is looked at: it asks with the wait of the moment."""

    def __init__(self) -> None:
        self._fetch_max_wait_ms = USUAL_MS
        self._records: dict[str, Any] = {}

    def _get_actions_per_node(self, assignment: Any) -> int:
        return self._fetch_max_wait_ms


def wait_ms(*, held_at: Sequence[float] = (), paused: bool = False, now: float = 100.0) -> int:
    """How long the fetch waits while records that came then are held, or a partition is paused."""
    fetcher = Fetcher()
    shorten_waits(fetcher, lambda: now)
    fetcher._records = {str(number): SimpleNamespace(_created=at) for number, at in enumerate(held_at)}
    fetcher._records["of somebody else now"] = SimpleNamespace(_created=0.0)
    states = {"0": paused, "1": False, "2": False}
    assignment = SimpleNamespace(tps=states, state_value=lambda place: SimpleNamespace(paused=states[place]))
    wait: int = fetcher._get_actions_per_node(assignment)
    fetcher._records.clear()
    states["0"] = False
    assert fetcher._get_actions_per_node(assignment) == USUAL_MS  # as soon as none is left out
    return wait


def test_a_fetch_of_everything_waits_as_usual() -> None:
    assert wait_ms() == USUAL_MS


def test_a_fetch_without_a_paused_partition_waits_for_a_moment() -> None:
    assert wait_ms(paused=True) == LEAST_WAIT_MS


@pytest.mark.parametrize(
    ("held_at", "wait"),
    [([99.9], LEAST_WAIT_MS), ([99.0], 100), ([99.0, 98.0], 200), ([50.0], USUAL_MS)],
)
def test_a_fetch_waits_a_part_of_the_time_that_others_take_to_be_taken(held_at: list[float], wait: int) -> None:
    assert wait_ms(held_at=held_at) == wait
