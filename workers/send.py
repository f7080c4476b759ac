"""Sending outcomes to partitions until they are acknowledged, whatever the broker says meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from producer_sdk.broker import Admin, BrokerError, Producer
from producer_sdk.errors import HeadraceError, InvalidRequest, PayloadTooLarge

from .reply import Scribe
from .work import Outcome

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


class Sender:
    """Publishes outcomes of one model. Any task of one event loop may call it.

    `acknowledged` is called with outcomes as the broker confirms them; `replaced` with an outcome that cannot be sent
    and what goes in its place; `keep` publishes the evidence of that, where the first had none. `put_back` takes what
    goes in the place of another and is to be stored before it is sent.
    """

    def __init__(
        self,
        producer: Producer,
        destinations: Destinations,
        scribe: Scribe,
        acknowledged: Callable[[Sequence[Outcome]], None],
        replaced: Callable[[Outcome, Outcome], None],
        keep: Callable[[Outcome], Awaitable[None]],
        put_back: Callable[[Outcome], None],
    ) -> None:
        self._producer = producer
        self._destinations = destinations
        self._scribe = scribe
        self._acknowledged = acknowledged
        self._replaced = replaced
        self._keep = keep
        self._put_back = put_back

    async def by_partition(self, outcomes: Sequence[Outcome]) -> Mapping[tuple[str, int], list[Outcome]]:
        """Where each goes; the broker is asked once at most, however many topics are not known."""
        groups: defaultdict[tuple[str, int], list[Outcome]] = defaultdict(list)
        looked = False
        counts = self._destinations.partitions
        last, group = None, list[Outcome]()
        for outcome in outcomes:
            if outcome.address is last:  # most requests of one client share the object
                group.append(outcome)
                continue
            topic, partition = last = outcome.address
            count = counts.get(topic, 0)
            if (partition or 0) >= count and not looked:
                looked = True
                await self._destinations.look()
                counts = self._destinations.partitions
                count = counts.get(topic, 0)
            if (partition or 0) >= count:
                redirected, last = await self._redirected(outcome, count), None
                if redirected is None:
                    continue
                outcome = redirected
                topic, partition = outcome.address
                count = max(1, counts.get(topic, 0))
            if partition is None:
                partition, last = outcome.source.ledger.partition.partition % count, None
            group = groups[topic, partition]
            group.append(outcome)
        return groups

    async def send(self, topic: str, partition: int, outcomes: Sequence[Outcome], *, small: bool = False) -> None:
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
                    await self._send_apart(topic, partition, outcomes, err, small=small)
                    return
                _log.warning(
                    "%d outcomes for %s:%d are not acknowledged and will be sent again: %s",
                    len(outcomes), topic, partition, err, extra={"action": "reply_unacknowledged"},
                )  # fmt: skip
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            if await self._is_gone(topic, partition):
                await self._send_grouped(outcomes, small=small)
                return
        self._acknowledged(outcomes)

    async def send_all(self, outcomes: Sequence[Outcome]) -> None:
        """Send to each partition at the same time, so that one which does not answer holds up none of the others."""
        async with asyncio.TaskGroup() as sending:
            for where, group in (await self.by_partition(outcomes)).items():
                sending.create_task(self.send(*where, group))

    async def _send_apart(
        self, topic: str, partition: int, outcomes: Sequence[Outcome], error: PayloadTooLarge, *, small: bool
    ) -> None:
        """The broker takes smaller records than we were told: find the ones that are too large and answer for them."""
        if len(outcomes) > 1:
            half = len(outcomes) // 2
            await self.send(topic, partition, outcomes[:half])
            await self.send(topic, partition, outcomes[half:])
        else:
            other = await self._instead(outcomes[0], error, elsewhere=small)
            await self._send_grouped([] if other is None else [other], small=True)

    async def _send_grouped(self, outcomes: Sequence[Outcome], *, small: bool) -> None:
        for (topic, partition), group in (await self.by_partition(outcomes)).items():
            await self.send(topic, partition, group, small=small)

    async def _is_gone(self, topic: str, partition: int) -> bool:
        """Whether a topic that replies went to has been deleted, or made anew with fewer partitions."""
        await self._destinations.look()
        count = self._destinations.partitions.get(topic, 0)
        return partition >= count and (count > 0 or not self._scribe.is_last_resort(topic))

    async def _redirected(self, outcome: Outcome, count: int) -> Outcome | None:
        if self._scribe.is_last_resort(outcome.address.topic) and outcome.address.partition is None:
            return outcome  # publishing says what is wrong, until somebody makes the topic again
        missing = f"it has {count} partitions" if count else "there is no such topic"
        error = InvalidRequest(f"reply_to {str(outcome.address)!r} cannot be reached: {missing}")
        return await self._instead(outcome, error, elsewhere=True)

    async def _instead(self, outcome: Outcome, error: HeadraceError, *, elsewhere: bool) -> Outcome | None:
        """What to send in its place; None where that was put back."""
        other = self._scribe.instead(outcome, error, elsewhere=elsewhere)
        self._replaced(outcome, other)
        if other.storing is not None:
            self._put_back(other)
            return None
        if other.evidence is not None and outcome.evidence is None:
            await self._keep(other)
        return other
