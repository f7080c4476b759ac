"""Commits what the ledgers of one model say, each commit bounded, tried again as often as its purpose asks for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from producer_sdk.broker import BrokerError, CommitRefused, Committed, Consumer, TopicPartition

from .commit import PartitionLedger, due_commits
from .work import Work

AGAIN_S = 0.1
LAST_COMMIT_S = 5.0
_log = logging.getLogger("headrace.worker")

Told = Callable[[Mapping[TopicPartition, Committed], int], None]  # what was committed; epoch ms of asking for it


class Committing:
    """One event loop touches it; any task may commit.

    `consumer` gives the consumer as of now; `refused` is called when the group says that the partitions are lost;
    `told` with what has been committed and when that was asked for: a process that sleeps between a commit and its
    acknowledgement may wake when the partition is long another worker's.
    """

    def __init__(
        self,
        model: str,
        ledgers: Mapping[TopicPartition, PartitionLedger],
        consumer: Callable[[], Consumer],
        refused: Callable[[], None],
        told: Told,
    ) -> None:
        self._model = model
        self._ledgers = ledgers
        self._consumer = consumer
        self._refused = refused
        self._told = told
        self._lock = asyncio.Lock()
        self._closing = False  # all commits are the last ones
        self.commits = 0  # that succeeded

    async def commit(self, closed: Collection[TopicPartition] = ()) -> bool:
        """Commit what is finished; False when it must be tried again. A refusal means the partitions are lost.

        `closed` partitions are marked as left in order: nothing in them is under suspicion.
        """
        async with self._lock:
            ledgers = dict(self._ledgers)
            due = due_commits(ledgers.values(), frozenset(ledgers if self._closing else closed))
            if not due:
                return True
            asked_ms = int(time.time() * 1000)
            try:
                await self._consumer().commit(due)
            except CommitRefused as err:
                _log.warning("Model %s has lost its partitions: %s", self._model, err, extra={"action": "lost"})
                self._refused()
            except BrokerError as err:
                _log.warning("Offsets of model %s are not committed yet: %s", self._model, err,
                             extra={"action": "commit_failed"})  # fmt: skip
                return False
            else:
                self.commits += 1
                self._told(due, asked_ms)
                for partition, committed in due.items():
                    ledgers[partition].committed(committed)
            return True

    async def surely(self) -> None:
        """Commit, trying again until it works or the partitions are lost."""
        while True:
            if await self.commit():
                return
            await asyncio.sleep(AGAIN_S)

    async def charge_next(self, work: Work) -> bool:
        """Commit that its next run is charged to a request, for this run may end the worker.

        False: it is somebody else's now.
        """
        ledger, offset = work.source.ledger, work.source.offset
        ledger.charge_ahead(offset, work.deaths + 1)
        await self.surely()
        if not ledger.is_ours:
            ledger.take_back(offset)
        return ledger.is_ours

    async def keep_on(self, finished: asyncio.Event, interval_s: float) -> None:
        """Commit each time something has finished, at most every `interval_s`, until cancelled."""
        while True:
            await finished.wait()
            await asyncio.sleep(interval_s)
            finished.clear()
            if not await self.commit():
                finished.set()

    async def for_the_last_time(self, timeout_s: float) -> bool:
        """Commit all partitions as left in order; False when it did not work out within the time."""
        self._closing = True
        return await self.close(self._ledgers.keys(), timeout_s)

    async def close(self, partitions: Collection[TopicPartition], timeout_s: float = LAST_COMMIT_S) -> bool:
        """Commit these as left in order, trying again for so long; False when it did not work out."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if await self.commit(partitions):
                        return True
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            return False
