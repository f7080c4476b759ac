"""Publishing outcomes: grouped by partition, acknowledged, and only then finished in their ledgers."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from producer_sdk.broker import Admin, BrokerError, Producer
from producer_sdk.errors import InvalidRequest, PayloadTooLarge

from .reply import Scribe
from .work import Outcome

MAX_WAITING = 8192
MAX_WAITING_BYTES = 64 * 1024 * 1024
LONGEST_PAUSE_S = 5.0
_log = logging.getLogger("headrace.worker")


class Destinations:
    """Which topics exist and how many partitions they have; asks the broker again when one is not known."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: Mapping[str, int] = {}

    async def partitions(self, topic: str) -> int:
        """Number of partitions; 0 for a topic that does not exist. Never creates one."""
        if topic not in self._known:
            self._known = await self._admin.topics()
        return self._known.get(topic, 0)


class Replier:
    """Publishes the outcomes of one model. `put` hands over, `run` publishes; one event loop touches it.

    `published` is called with outcomes as they are acknowledged, `rested` when a round of publishing is over.

    One round of publishing is under way at a time; what arrives meanwhile goes out in the next, so that a busy worker
    sends large batches and an idle one sends at once.
    """

    def __init__(
        self,
        producer: Producer,
        destinations: Destinations,
        scribe: Scribe,
        *,
        published: Callable[[Sequence[Outcome]], None],
        rested: Callable[[], None],
    ) -> None:
        self._producer = producer
        self._destinations = destinations
        self._scribe = scribe
        self._published = published
        self._rested = rested
        self._waiting: list[Outcome] = []
        self._waiting_bytes = 0
        self._under_way = 0
        self._wake = asyncio.Event()

    def put(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._waiting.append(outcome)
            self._waiting_bytes += len(outcome.outgoing.value or b"")
        self._wake.set()

    @property
    def full(self) -> bool:
        """More waits than may; no further batch or haul should be taken."""
        return len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES

    @property
    def unacknowledged(self) -> int:
        return len(self._waiting) + self._under_way

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            outcomes, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._under_way = len(outcomes)
            try:
                groups = await self._by_partition(outcomes)
                await asyncio.gather(*(self._publish(*where, group) for where, group in groups.items()))
            finally:
                self._under_way = 0
            self._rested()

    async def _by_partition(self, outcomes: Sequence[Outcome]) -> Mapping[tuple[str, int], list[Outcome]]:
        groups: defaultdict[tuple[str, int], list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            topic, partition = outcome.address
            count = await self._partitions(topic)
            if partition is None and count:
                partition = outcome.source.ledger.partition.partition % count
            if partition is None or partition >= count:
                missing = f"topic {topic!r} does not exist" if not count else f"{topic!r} has {count} partitions"
                error = InvalidRequest(f"reply_to {str(outcome.address)!r} cannot be reached: {missing}")
                outcome = self._scribe.instead(outcome, error, elsewhere=True)
                topic = outcome.address.topic
                count = max(1, await self._partitions(topic))
                partition = outcome.source.ledger.partition.partition % count
            groups[topic, partition].append(outcome)
        return groups

    async def _partitions(self, topic: str) -> int:
        pause_s = 0.1
        while True:
            try:
                return await self._destinations.partitions(topic)
            except BrokerError as err:
                _log.warning("The broker does not list its topics: %s", err, extra={"action": "list_topics_failed"})
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    async def _publish(self, topic: str, partition: int, outcomes: Sequence[Outcome]) -> None:
        """Publish until acknowledged: an outcome is never given up, its offset stays uncommitted meanwhile."""
        pause_s = 0.1
        while True:
            try:
                await self._producer.publish_batch(topic, partition, [outcome.outgoing for outcome in outcomes])
                break
            except PayloadTooLarge as err:
                await self._publish_apart(topic, partition, outcomes, err)
                return
            except BrokerError as err:
                _log.warning(
                    "%d replies to %s:%d are not acknowledged and will be sent again: %s",
                    len(outcomes), topic, partition, err, extra={"action": "reply_unacknowledged"},
                )  # fmt: skip
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        for outcome in outcomes:
            outcome.source.ledger.finish(outcome.source.offset)
        self._published(outcomes)

    async def _publish_apart(
        self, topic: str, partition: int, outcomes: Sequence[Outcome], error: PayloadTooLarge
    ) -> None:
        """The broker takes smaller records than we were told: find the ones that are too large and answer for them."""
        if len(outcomes) > 1:
            for outcome in outcomes:
                await self._publish(topic, partition, [outcome])
            return
        await self._publish(topic, partition, [self._scribe.instead(outcomes[0], error)])
