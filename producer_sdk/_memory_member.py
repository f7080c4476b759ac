"""A member of a consumer group of the broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from ._memory_consumer import MemoryConsumer
from ._memory_faults import Faults
from ._memory_group import Group
from ._memory_logs import Logs
from ._static_member import taken_over
from .broker import (
    BrokerError,
    CommitRefused,
    Committed,
    GroupOptions,
    Ownership,
    TopicPartition,
)

_MAX_METADATA_BYTES = 4096


class MemoryMember(MemoryConsumer):
    """Implements `broker.Consumer` for a group.

    Attributes:
        gone: set when the group has put it out.
        silent: it hears and says nothing any more, though the group does not know yet.
    """

    def __init__(
        self,
        logs: Logs,
        faults: Faults,
        group: Group,
        topics: frozenset[str],
        ownership: Ownership,
        options: GroupOptions,
    ) -> None:
        super().__init__(logs, faults)
        self.topics = topics
        self.options = options
        self.gone = asyncio.Event()
        self.silent = False
        self._group = group
        self._ownership = ownership
        self._generation: int | None = None  # None between two assignments

    async def start(self) -> None:
        """Join; the partitions come later. Raises BrokerError for unknown topics."""
        await self._faults.reach(f"take a member of group {self._group.name!r}")
        missing = self.topics - self._logs.topics().keys()
        if missing:
            raise BrokerError(f"topics {', '.join(sorted(missing))} do not exist in memory: create them first")
        self._begin()
        self._group.join(self)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        await asyncio.sleep(0)
        group, limit_s = self._group.name, self._faults.commit_timeout_s
        no_answer = f"group {group!r} did not answer a commit within {limit_s:g} s"
        await self._faults.network.opened_within(limit_s, no_answer)
        mine = self._generation == self._group.generation and self._group.knows(self)
        if self._stopped or not mine or not offsets.keys() <= self._positions.keys():
            raise CommitRefused(f"group {group!r} has given the partitions to somebody else")
        for partition, offset in offsets.items():
            size = len(offset.metadata.encode())
            if size > _MAX_METADATA_BYTES:
                raise BrokerError(f"group {group!r} did not take a commit: {size} bytes of metadata")
            if self._logs.find(partition) is None:
                raise BrokerError(f"group {group!r} did not take a commit: topic {partition.topic!r} is gone")
        error, arrives = self._faults.failing_commits or (None, True)
        if arrives:
            self._group.committed.update(offsets)
        if error is not None:
            raise error
        await self._faults.commits.opened_within(limit_s, no_answer)

    async def stop(self, timeout_s: float = 10.0) -> None:
        stopped_before = self._stopped
        await super().stop(timeout_s)
        if self.options.instance_id is None and not self._faults.network.closed:
            self._group.leave(self)
        elif not stopped_before and self._started:
            # No goodbye: by choice, as the same instance is expected back, or for want of a way to the broker.
            self.kill()
            asyncio.get_running_loop().call_later(self.options.session_timeout_s, self._group.leave, self)

    async def revoke(self) -> None:
        self._held = True
        if self._positions:
            await self._tell("revoked", self._ownership.revoked(self.assignment()))
        self._generation = None
        self._positions = {}
        if self.gone.is_set() and not self.silent and not self._stopped and self._fault is None:
            # It took too long and was put out: as a real member does, it joins anew.
            self.gone.clear()
            self._group.join(self)

    async def assign(self, generation: int, partitions: frozenset[TopicPartition]) -> None:
        if self.gone.is_set():
            return
        starts = {partition: self._start_of(partition) for partition in sorted(partitions)}
        self._positions = {partition: start.offset for partition, start in starts.items()}
        if self.silent:
            return
        self._generation = generation
        self._paused.clear()
        await self._tell("assigned", self._ownership.assigned(starts))
        self._held = False
        self._arrived.set()

    def kill(self) -> None:
        """Vanish as a process does that is killed: no records, no answers, no goodbye."""
        self.silent = True
        self._held = True

    def fence(self) -> None:
        """Another member has come under the same `instance_id`."""
        self.gone.set()
        if not self.silent:
            self._fault = taken_over(self._group.name, self.options.instance_id)
            self._arrived.set()

    def _start_of(self, partition: TopicPartition) -> Committed:
        log = self._logs.find(partition)
        return self._group.committed.get(partition) or Committed(0 if log is None else log.first)

    async def _tell(self, what: str, telling: Awaitable[None]) -> None:
        try:
            await telling
        except Exception as err:  # noqa: BLE001 - the owner's code, whose fault the next poll raises
            self._fault = BrokerError(f"the member of group {self._group.name!r} failed on partitions {what}: {err!r}")
            self._fault.__cause__ = err
