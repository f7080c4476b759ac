"""Topics and committed offsets of the broker in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ._memory_faults import Faults
from ._memory_group import Group
from ._memory_logs import Logs
from .broker import Bounds, BrokerError, Committed, NotAllowed, Topic, TopicPartition
from .rights import Right


class MemoryAdmin:
    """Implements `broker.Admin`. One event loop; any task."""

    def __init__(self, logs: Logs, faults: Faults, groups: Mapping[str, Group]) -> None:
        self._logs = logs
        self._faults = faults
        self._groups = groups

    async def start(self) -> None:
        """Raises BrokerError when the broker cannot be reached in time."""
        await self._faults.reach("take an administrator")

    async def topics(self) -> Mapping[str, int]:
        await self._faults.reach("list its topics")
        return self._logs.topics()

    async def create_topics(self, topics: Sequence[Topic]) -> frozenset[str]:
        await self._faults.reach("create topics")
        created, faults = set(), []
        for topic in topics:
            try:
                if self._logs.create(topic):
                    created.add(topic.name)
            except BrokerError as err:
                faults.append(err.message)
        for name in created:
            for group in self._groups.values():
                group.changed(name)
        if faults:
            raise BrokerError("; ".join(faults))
        return frozenset(created)

    async def committed(self, group: str) -> Mapping[TopicPartition, Committed]:
        await self._faults.reach(f"say what group {group!r} has committed")
        return dict(self._groups[group].committed) if group in self._groups else {}

    async def missing(self, rights: Iterable[Right]) -> NotAllowed | None:
        """None: everybody may do everything here."""
        return None

    async def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        await self._faults.reach("say what partitions hold")
        logs = {partition: self._logs.log(partition) for partition in partitions}
        return {partition: Bounds(log.first, log.end) for partition, log in logs.items()}

    async def stop(self) -> None:
        """Nothing to close."""
