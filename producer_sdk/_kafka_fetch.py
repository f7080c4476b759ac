"""How long a fetch waits at the broker for records to come.

aiokafka has one fetch under way to each broker. One that leaves partitions out, as they are paused or what was fetched
of them is not taken yet, holds up the next of those for as long as it waits: at the usual half second, a worker whose
other lanes are empty stands still that long each time it has taken all. Yet each fetch costs both sides as much as a
batch of records: a model that takes seconds for what was fetched at once must not ask 50 times in them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LEAST_WAIT_MS = 20
PART_OF_AGE = 0.1  # records that have lain here for so long may be followed by others this part of it later
# Of how long the last two times lasted, the shorter. While a partition is paused half of what may wait here is worked
# off, so at its end as much again is left to do; what lies fetched here may be several times what waits behind it.
PART_OF_EARLIER = 0.125


class Absences:
    """How long the partitions of one assignment have been left out, now and before. Pure; seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[Any, float] = {}
        self._earlier: dict[Any, tuple[float, float]] = {}  # how long the last two lasted

    def wait_s(self, left_out: Mapping[Any, float | None], now: float) -> float | None:
        """How long a fetch may wait that leaves these out; None where there are none.

        With when what is held of each was fetched; None where nothing is.
        """
        known = self._since
        self._since = {
            place: known.get(place, now) if fetched is None else max(fetched, known.get(place, fetched))
            for place, fetched in left_out.items()
        }
        for place, since in known.items():
            if (until := self._since.get(place, now)) != since:
                self._earlier[place] = (until - since, self._earlier.get(place, (0.0, 0.0))[0])
        if not left_out:
            return None
        oldest = min([fetched for fetched in left_out.values() if fetched is not None], default=now)
        by_topic: defaultdict[str, list[Any]] = defaultdict(list)
        for place in left_out:
            by_topic[place.topic].append(place)
        return min([self._bearable_s(places, left_out, oldest, now) for places in by_topic.values()])

    def _bearable_s(
        self, places: Sequence[Any], left_out: Mapping[Any, float | None], oldest: float, now: float
    ) -> float:
        """How long those of one topic, which is a lane, may have to wait.

        What is here of it waits for its own turn, whatever has lain here long of another. One that is paused with
        nothing here goes on when there is room, and the `oldest` of all tells how fast that comes.
        """
        since = min([fetched for place in places if (fetched := left_out[place]) is not None], default=oldest)
        # This time may be over sooner than those before: so at most as long as it has lasted by now.
        parts = [min(now - self._since[place], self._usual_s(place) * PART_OF_EARLIER) for place in places]
        return max((now - since) * PART_OF_AGE, min(parts))

    def _usual_s(self, place: Any) -> float:
        return min(self._earlier.get(place, (0.0, 0.0)))


def shorten_waits(fetcher: Any, clock: Callable[[], float] = time.monotonic) -> None:
    """Have the fetches of an aiokafka Fetcher that leave partitions out wait for a part of the time that these take."""
    choose, usual_ms = fetcher._get_actions_per_node, fetcher._fetch_max_wait_ms
    absences, known = Absences(), None

    def choose_in_time(assignment: Any) -> Any:
        nonlocal absences, known
        if assignment is not known:  # what others had meanwhile was not left out by us
            absences, known = Absences(), assignment
        left_out: dict[Any, float | None] = {}
        for place in assignment.tps:
            if place in fetcher._records:
                left_out[place] = fetcher._records[place]._created
            elif assignment.state_value(place).paused:
                left_out[place] = None
        wait_s = absences.wait_s(left_out, clock())
        fetcher._fetch_max_wait_ms = usual_ms
        if wait_s is not None:
            fetcher._fetch_max_wait_ms = min(usual_ms, max(LEAST_WAIT_MS, round(wait_s * 1000)))
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
