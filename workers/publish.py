"""Publishing outcomes: grouped by partition, acknowledged, and only then finished in their ledgers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from producer_sdk.broker import Admin, BrokerError, Producer
from producer_sdk.errors import HeadraceError, InvalidRequest, PayloadTooLarge
from producer_sdk.topics import Lane

from .events import heard
from .reply import Scribe
from .work import Outcome

MAX_UNACKNOWLEDGED = 8192
MAX_UNACKNOWLEDGED_BYTES = 64 * 1024 * 1024
LINGER_S = 0.02
ENOUGH = 64  # outcomes that need not wait for more: beyond it a request to the broker costs them little
ROUND_S = 0.25
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
_log = logging.getLogger("headrace.worker")


class Destinations:
    """Which topics exist and how many partitions they have, as of the last look. Looking never creates one."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.partitions: Mapping[str, int] = {}

    async def look(self) -> None:
        """Ask the broker until it answers."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                self.partitions = await self._admin.topics()
            except BrokerError as err:
                _log.warning("The broker does not list its topics: %s", err, extra={"action": "list_topics_failed"})
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            else:
                return


class Replier:
    """Publishes the outcomes of one model. `put` hands over, `run` publishes; one event loop touches it.

    `published` is called with outcomes as they are acknowledged; `running` tells how many batches run now.

    What arrives while a round of publishing is under way goes out in the next, so that a busy worker sends large
    batches and an idle one sends at once. A partition that does not answer delays a round for `ROUND_S` only.
    """

    def __init__(
        self,
        producer: Producer,
        destinations: Destinations,
        scribe: Scribe,
        published: Callable[[Sequence[Outcome]], None],
        running: Callable[[], int],
    ) -> None:
        self._producer = producer
        self._destinations = destinations
        self._scribe = scribe
        self._published = published
        self._running = running
        self._urgent = False
        self._waiting: list[Outcome] = []
        self._nbytes = 0
        self._wake = asyncio.Event()
        self.unacknowledged = 0

    def put(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self._waiting += outcomes
            self.unacknowledged += len(outcomes)
            self._nbytes += _bytes_of(outcomes)
            self._urgent = self._urgent or any(outcome.lane is Lane.INTERACTIVE for outcome in outcomes)
            self._wake.set()

    @property
    def full(self) -> bool:
        """More is unacknowledged than may be; no further batch or haul should be taken."""
        return self.unacknowledged >= MAX_UNACKNOWLEDGED or self._nbytes >= MAX_UNACKNOWLEDGED_BYTES

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as sending:
            while True:
                await self._wake.wait()
                await self._linger()
                outcomes, self._waiting, self._urgent = self._waiting, [], False
                groups = await self._by_partition(outcomes)
                publishing = [sending.create_task(self._publish(*where, group)) for where, group in groups.items()]
                await asyncio.wait(publishing, timeout=ROUND_S)

    async def _linger(self) -> None:
        """While the next batch runs and nobody waits for these, let its outcomes go out with them.

        A request to the broker has a fixed cost on both sides, which small batches feel most.
        """
        self._wake.clear()
        ends = time.monotonic() + LINGER_S
        while not self._urgent and len(self._waiting) < ENOUGH and self._running():
            left_s = ends - time.monotonic()
            if left_s <= 0:
                return
            await heard(self._wake, left_s)
            self._wake.clear()

    async def _by_partition(self, outcomes: Sequence[Outcome]) -> Mapping[tuple[str, int], list[Outcome]]:
        """Where each goes; the broker is asked once at most, however many topics are not known."""
        groups: defaultdict[tuple[str, int], list[Outcome]] = defaultdict(list)
        looked = False
        counts = self._destinations.partitions
        for outcome in outcomes:
            topic, partition = outcome.address
            count = counts.get(topic, 0)
            if (partition or 0) >= count and not looked:
                looked = True
                await self._destinations.look()
                counts = self._destinations.partitions
                count = counts.get(topic, 0)
            if (partition or 0) >= count:
                outcome = self._redirected(outcome, count)
                topic, partition = outcome.address
                count = max(1, counts.get(topic, 0))
            if partition is None:
                partition = outcome.source.ledger.partition.partition % count
            groups[topic, partition].append(outcome)
        return groups

    def _redirected(self, outcome: Outcome, count: int) -> Outcome:
        if self._scribe.is_last_resort(outcome.address.topic) and outcome.address.partition is None:
            return outcome  # publishing says what is wrong, until somebody makes the topic again
        missing = f"it has {count} partitions" if count else "there is no such topic"
        error = InvalidRequest(f"reply_to {str(outcome.address)!r} cannot be reached: {missing}")
        return self._instead(outcome, error, elsewhere=True)

    def _instead(self, outcome: Outcome, error: HeadraceError, *, elsewhere: bool) -> Outcome:
        other = self._scribe.instead(outcome, error, elsewhere=elsewhere)
        self._nbytes += _bytes_of([other]) - _bytes_of([outcome])
        return other

    async def _publish(self, topic: str, partition: int, outcomes: Sequence[Outcome], *, small: bool = False) -> None:
        """Publish until acknowledged: an outcome is never given up, its offset stays uncommitted meanwhile.

        `small` says that it is already the short form of one that was too large.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._producer.publish_batch(topic, partition, [outcome.outgoing for outcome in outcomes])
                break
            except (BrokerError, PayloadTooLarge) as err:
                hopeless = small and self._scribe.is_last_resort(topic)
                if isinstance(err, PayloadTooLarge) and not hopeless:
                    await self._publish_apart(topic, partition, outcomes, err, small=small)
                    return
                _log.warning(
                    "%d replies to %s:%d are not acknowledged and will be sent again: %s",
                    len(outcomes), topic, partition, err, extra={"action": "reply_unacknowledged"},
                )  # fmt: skip
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            if await self._is_gone(topic, partition):
                await self._publish_groups(outcomes, small=small)
                return
        for outcome in outcomes:
            outcome.source.ledger.finish(outcome.source.offset)
        self.unacknowledged -= len(outcomes)
        self._nbytes -= _bytes_of(outcomes)
        self._published(outcomes)

    async def _publish_apart(
        self, topic: str, partition: int, outcomes: Sequence[Outcome], error: PayloadTooLarge, *, small: bool
    ) -> None:
        """The broker takes smaller records than we were told: find the ones that are too large and answer for them."""
        if len(outcomes) > 1:
            half = len(outcomes) // 2
            await self._publish(topic, partition, outcomes[:half])
            await self._publish(topic, partition, outcomes[half:])
        else:
            await self._publish_groups([self._instead(outcomes[0], error, elsewhere=small)], small=True)

    async def _publish_groups(self, outcomes: Sequence[Outcome], *, small: bool) -> None:
        for (topic, partition), group in (await self._by_partition(outcomes)).items():
            await self._publish(topic, partition, group, small=small)

    async def _is_gone(self, topic: str, partition: int) -> bool:
        """Whether a topic that replies went to has been deleted, or made anew with fewer partitions."""
        await self._destinations.look()
        count = self._destinations.partitions.get(topic, 0)
        return partition >= count and (count > 0 or not self._scribe.is_last_resort(topic))


def _bytes_of(outcomes: Sequence[Outcome]) -> int:
    return sum([len(outcome.outgoing.value or b"") for outcome in outcomes])
