"""Consumers of the broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence

from ._memory_group import Group
from ._memory_logs import Logs, MemoryRecord
from .broker import BrokerError, CommitRefused, Committed, GroupOptions, Ownership, TopicPartition

_MAX_METADATA_BYTES = 4096


class MemoryConsumer:
    """What members and readers share. One event loop; one task polls, any task may call the rest."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._arrived = asyncio.Event()
        self._held = False  # the owner is being told of its partitions, until then polls give nothing
        self._started = False
        self._stopped = False
        self._fault: BrokerError | None = None
        self._turn = 0

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[MemoryRecord]]:
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
        return {partition: len(self._logs.log(partition)) for partition in partitions}

    def positions(self) -> Mapping[TopicPartition, int]:
        return dict(self._positions)

    def lag(self) -> Mapping[TopicPartition, int]:
        return {
            partition: max(0, len(self._logs.log(partition)) - position)
            for partition, position in self._positions.items()
        }

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._stopped = True
        self._logs.wakes.discard(self._wake)
        self._arrived.set()

    def _begin(self) -> None:
        self._started = True
        self._logs.wakes.add(self._wake)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._stopped or not self._started:
            raise BrokerError(f"the consumer in memory is {'stopped' if self._stopped else 'not started'}")

    def _wake(self, partition: TopicPartition) -> None:
        if partition in self._positions:
            self._arrived.set()

    def _take(self, max_records: int) -> Mapping[TopicPartition, Sequence[MemoryRecord]]:
        """Records in turn from the partitions, so that none waits behind a full one."""
        taken: dict[TopicPartition, Sequence[MemoryRecord]] = {}
        partitions = [] if self._held else sorted(self._positions.keys() - self._paused)
        start = self._turn % len(partitions) if partitions else 0
        for partition in partitions[start:] + partitions[:start]:
            position = self._positions[partition]
            records = self._logs.log(partition)[position : position + max_records]
            if records:
                taken[partition] = records
                self._positions[partition] = position + len(records)
                max_records -= len(records)
            if max_records == 0:
                break
        self._turn += 1
        return taken


class MemoryReader(MemoryConsumer):
    """Reads fixed partitions."""

    def __init__(self, logs: Logs, partitions: frozenset[TopicPartition], *, from_end: bool) -> None:
        super().__init__(logs)
        self._wanted = partitions
        self._from_end = from_end

    async def start(self) -> None:
        """Fix the positions. Raises BrokerError."""
        ends = await self.end_offsets(self._wanted)
        self._positions = dict(ends) if self._from_end else dict.fromkeys(self._wanted, 0)
        self._begin()


class MemoryMember(MemoryConsumer):
    """A member of a group. `killed`: it sees and says nothing any more, though the group does not know yet."""

    def __init__(
        self, logs: Logs, group: Group, topics: frozenset[str], ownership: Ownership, options: GroupOptions
    ) -> None:
        super().__init__(logs)
        self.topics = topics
        self.options = options
        self.gone = asyncio.Event()
        self.killed = False
        self._group = group
        self._ownership = ownership
        self._generation: int | None = None  # None between two assignments

    async def start(self) -> None:
        """Join; the partitions come later. Raises BrokerError for unknown topics."""
        missing = self.topics - self._logs.topics().keys()
        if missing:
            raise BrokerError(f"topics {', '.join(sorted(missing))} do not exist in memory: create them first")
        self._begin()
        self._group.join(self)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        await asyncio.sleep(0)
        mine = self._generation == self._group.generation and self._group.knows(self)
        if self._stopped or not mine or not offsets.keys() <= self._positions.keys():
            raise CommitRefused(f"group {self._group.name!r} has given the partitions to somebody else")
        for offset in offsets.values():
            size = len(offset.metadata.encode())
            if size > _MAX_METADATA_BYTES:
                raise BrokerError(f"group {self._group.name!r} did not take a commit: {size} bytes of metadata")
        self._group.committed.update(offsets)

    async def stop(self, timeout_s: float = 10.0) -> None:
        await super().stop(timeout_s)
        self._group.leave(self)

    async def revoke(self) -> None:
        self._held = True
        if self._positions:
            await self._tell("revoked", self._ownership.revoked(self.assignment()))
        self._generation = None
        self._positions = {}
        if self.gone.is_set() and not self.killed and not self._stopped:
            # It took too long and was put out: as a real member does, it joins anew.
            self.gone.clear()
            self._group.join(self)

    async def assign(self, generation: int, partitions: frozenset[TopicPartition]) -> None:
        if self.killed or self.gone.is_set():
            return
        self._generation = generation
        committed = self._group.committed
        self._positions = {p: committed[p].offset if p in committed else 0 for p in sorted(partitions)}
        self._paused.clear()
        await self._tell("assigned", self._ownership.assigned(partitions))
        self._held = False
        self._arrived.set()

    def kill(self) -> None:
        """Vanish as a process does that is killed: no records, no answers, no goodbye."""
        self.killed = True
        self._held = True

    async def _tell(self, what: str, telling: Awaitable[None]) -> None:
        try:
            await telling
        except Exception as err:  # noqa: BLE001 - the owner's code, whose fault the next poll raises
            self._fault = BrokerError(f"the member of group {self._group.name!r} failed on partitions {what}: {err!r}")
            self._fault.__cause__ = err
