"""How long a fetch waits at the broker for records to come.

aiokafka has one fetch under way to each broker. One that leaves partitions out, as they are paused or what was fetched
of them is not taken yet, holds up the next of those for as long as it waits: at the usual half second, a worker whose
other lanes are empty stands still that long each time it has taken all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

LEAST_WAIT_MS = 20
PART_OF_AGE = 0.1  # records that have lain here for so long may be followed by others this part of it later


def shorten_waits(fetcher: Any, clock: Callable[[], float] = time.monotonic) -> None:
    """Have the fetches of an aiokafka Fetcher that leave partitions out wait for a moment only."""
    choose, usual_ms = fetcher._get_actions_per_node, fetcher._fetch_max_wait_ms

    def choose_in_time(assignment: Any) -> Any:
        fetcher._fetch_max_wait_ms = usual_ms
        held = [fetcher._records[place]._created for place in assignment.tps if place in fetcher._records]
        if held:
            age_ms = round((clock() - min(held)) * 1000 * PART_OF_AGE)
            fetcher._fetch_max_wait_ms = min(usual_ms, max(LEAST_WAIT_MS, age_ms))
        elif any(assignment.state_value(place).paused for place in assignment.tps):
            fetcher._fetch_max_wait_ms = LEAST_WAIT_MS
        return choose(assignment)

    fetcher._get_actions_per_node = choose_in_time


def tasks_of(consumer: Any) -> tuple[asyncio.Task[Any], ...]:
    """Tasks of an aiokafka consumer without any of which it would wait for ever."""
    coordinator = consumer._coordinator
    group_task = getattr(coordinator, "_coordination_task", None) or coordinator._reset_committed_task
    return consumer._fetcher._fetch_task, consumer._client._sync_task, group_task


def end_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Why a task ended."""
    return None if task.cancelled() else task.exception()
