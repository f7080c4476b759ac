"""Consumers of the broker in memory: what members and readers share, and the reader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ._memory_faults import Faults
from ._memory_logs import Logs
from ._read_record import ReadRecord
from .broker import BrokerError, CommitRefused, Committed, TopicPartition


class MemoryConsumer:
    """What members and readers share. One event loop; one task polls, any task may call the rest."""

    def __init__(self, logs: Logs, faults: Faults) -> None:
        self._logs = logs
        self._faults = faults
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._arrived = asyncio.Event()
        self._held = False  # the owner is being told of its partitions, until then polls give nothing
        self._started = False
        self._stopped = False
        self._fault: BrokerError | None = None
        self._turn = 0

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[ReadRecord]]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        await asyncio.sleep(0)  # a full topic must not keep every other task from running
        while True:
            self._check()
            records = self._take(max_records)
            left_s = ends_at - loop.time()
            if records or left_s <= 0:
                return records
            self._arrived.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()
            except TimeoutError:
                pass  # the last look follows

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def pause(self, partitions: frozenset[TopicPartition]) -> None:
        self._paused |= partitions & self._positions.keys()

    def resume(self, partitions: frozenset[TopicPartition]) -> None:
        self._paused -= partitions
        self._arrived.set()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from the offset; ignored for a partition that is not assigned."""
        if partition in self._positions:
            self._positions[partition] = offset
            self._arrived.set()

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        raise CommitRefused("a reader of fixed partitions is in no group, so it cannot commit")

    async def end_offsets(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        await self._faults.reach("give end offsets")
        return {partition: self._logs.log(partition).end for partition in partitions}

    def positions(self) -> Mapping[TopicPartition, int]:
        return dict(self._positions)

    def lag(self) -> Mapping[TopicPartition, int]:
        ends = {partition: log.end for partition in self._positions if (log := self._logs.find(partition)) is not None}
        return {partition: max(0, end - self._positions[partition]) for partition, end in ends.items()}

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._stopped = True
        self._logs.wakes.pop(self._wake, None)
        self._arrived.set()

    def _begin(self) -> None:
        self._started = True
        self._logs.wakes[self._wake] = None

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._stopped or not self._started:
            raise BrokerError(f"the consumer in memory is {'stopped' if self._stopped else 'not started'}")

    def _wake(self, partition: TopicPartition | None) -> None:
        if partition is None or partition in self._positions:
            self._arrived.set()

    def _take(self, max_records: int) -> Mapping[TopicPartition, Sequence[ReadRecord]]:
        """Records in turn from the partitions, so that none waits behind a full one."""
        taken: dict[TopicPartition, Sequence[ReadRecord]] = {}
        blocked = self._held or self._faults.network.closed
        partitions = [] if blocked else sorted(self._positions.keys() - self._paused)
        start = self._turn % len(partitions) if partitions else 0
        for partition in partitions[start:] + partitions[:start]:
            log = self._logs.find(partition)
            if log is None:
                continue  # the topic is gone; it may come back
            records, self._positions[partition] = log.read(self._positions[partition], max_records)
            if records:
                taken[partition] = records
                max_records -= len(records)
            if max_records == 0:
                break
        self._turn += 1
        return taken


class MemoryReader(MemoryConsumer):
    """Reads fixed partitions."""

    def __init__(self, logs: Logs, faults: Faults, partitions: frozenset[TopicPartition], *, from_end: bool) -> None:
        super().__init__(logs, faults)
        self._wanted = partitions
        self._from_end = from_end

    async def start(self) -> None:
        """Fix the positions. Raises BrokerError."""
        await self._faults.reach("take a reader")
        logs = {partition: self._logs.log(partition) for partition in self._wanted}
        self._positions = {partition: log.end if self._from_end else log.first for partition, log in logs.items()}
        self._begin()
