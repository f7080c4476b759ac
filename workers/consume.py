"""The records of one model arrive: membership of its group, a ledger for each assigned partition, pause and resume."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from producer_sdk.broker import (
    Broker,
    BrokerError,
    CommitRefused,
    Consumer,
    GroupOptions,
    Misconfigured,
    Record,
    TopicPartition,
)
from producer_sdk.topics import Lane, Topics

from .commit import PartitionLedger, commit

STOP_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
CALM_S = 60.0  # a consumer that failed sooner than so after it had joined waits longer each time
_log = logging.getLogger("headrace.worker")

Settle = Callable[[Sequence[PartitionLedger]], Awaitable[None]]
Lost = Callable[[Sequence[PartitionLedger]], None]


class Intake:
    """One model's membership of its consumer group. One event loop touches it; one task calls `poll`.

    Each assignment of a partition has a ledger of its own. When partitions go, `settle` is awaited (it finishes what
    was started), then what is finished is committed, and only then are the ledgers fenced. When they are lost, `lost`
    is called and nothing of them is committed.
    """

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        model: str,
        options: GroupOptions,
        *,
        settle: Settle,
        lost: Lost,
        changed: Callable[[], None],
    ) -> None:
        self._lanes = topics.lanes(model)
        self._model = model
        self._settle = settle
        self._committing = asyncio.Lock()
        self._lost = lost
        self._changed = changed
        self._broker = broker
        self._group = topics.group(model)
        self._options = options
        self._consumer = self._new_member()
        self._joined_at: float | None = None  # None while there is no started consumer
        self._pause_s = 0.0
        self._lost_at: float | None = None  # until the next assignment, without which its records would go unread
        self.ledgers: dict[TopicPartition, PartitionLedger] = {}
        self.assignments = 0  # how often the group has given out partitions

    def _new_member(self) -> Consumer:
        return self._broker.member(self._group, frozenset(self._lanes), self, self._options)

    async def start(self) -> None:
        await self._consumer.start()
        self._joined_at = time.monotonic()

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        """What has arrived. A consumer that cannot go on is replaced, its partitions given up uncommitted.

        Raises:
            Misconfigured: another would not fare better.
        """
        try:
            if self._lost_at is not None and time.monotonic() - self._lost_at > self._options.rebalance_timeout_s:
                raise BrokerError("its partitions were lost and the group has not given it others since")
            return await self._consumer.poll(max_records, timeout_s)
        except Misconfigured:
            raise
        except BrokerError as err:
            _log.error("Model %s joins its group anew: %s", self._model, err, extra={"action": "rejoin"})
            await self._join_anew()
            return {}

    async def _join_anew(self) -> None:
        self._give_up()
        if self._joined_at is None or time.monotonic() - self._joined_at > CALM_S:
            self._pause_s = 0.0
        self._joined_at = None
        while self._joined_at is None:
            await self._consumer.stop(STOP_TIMEOUT_S)
            self._give_up()  # what it was assigned while it stopped
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * self._pause_s))
            self._consumer = self._new_member()
            try:
                await self.start()
            except BrokerError as err:
                _log.warning("Model %s cannot join its group yet: %s", self._model, err,
                             extra={"action": "join_failed"})  # fmt: skip

    def _give_up(self) -> None:
        ledgers = list(self.ledgers.values())
        self._lost_at = time.monotonic()
        self._fence(ledgers)
        self._lost(ledgers)

    def lane(self, topic: str) -> Lane:
        return self._lanes[topic]

    def pause(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def lag(self) -> int | None:
        """Records that wait in the assigned partitions; None while none is known. Any thread may ask."""
        return sum(self._consumer.lag().values()) if self.ledgers and self._joined_at is not None else None

    async def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.ledgers |= {partition: PartitionLedger(partition) for partition in partitions}
        self.assignments += 1
        self._lost_at = None
        self._changed()
        _log.info("Model %s has %d partitions", self._model, len(self.ledgers), extra={"action": "assigned"})

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        leaving = [self.ledgers[partition] for partition in partitions if partition in self.ledgers]
        await self._settle(leaving)
        await self.commit()
        self._fence(leaving)

    async def commit(self) -> bool:
        """Commit what is finished; False when it must be tried again. A refusal means the partitions are lost."""
        async with self._committing:
            try:
                await commit(self._consumer, dict(self.ledgers))
            except CommitRefused as err:
                _log.warning("Model %s has lost its partitions: %s", self._model, err, extra={"action": "lost"})
                self._give_up()
            except BrokerError as err:
                _log.warning("Offsets of model %s are not committed yet: %s", self._model, err,
                             extra={"action": "commit_failed"})  # fmt: skip
                return False
            return True

    async def keep_committing(self, finished: asyncio.Event, interval_s: float) -> None:
        """Commit each time something has finished, at most every `interval_s`, until cancelled."""
        while True:
            await finished.wait()
            await asyncio.sleep(interval_s)
            finished.clear()
            if not await self.commit():
                finished.set()

    async def commit_within(self, timeout_s: float) -> bool:
        """Commit, trying again for so long; False when it did not work out."""
        try:
            async with asyncio.timeout(timeout_s):
                committed = await self.commit()
                while not committed:
                    await asyncio.sleep(FIRST_PAUSE_S)
                    committed = await self.commit()
        except TimeoutError:
            return False
        return True

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Leave the group; nothing can be committed afterwards."""
        self._joined_at = None
        await self._consumer.stop(timeout_s)
        self._fence(list(self.ledgers.values()))

    def _fence(self, ledgers: Iterable[PartitionLedger]) -> None:
        for ledger in ledgers:
            ledger.fence()
            if self.ledgers.get(ledger.partition) is ledger:
                del self.ledgers[ledger.partition]
