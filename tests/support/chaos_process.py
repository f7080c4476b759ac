"""A simulated process on the broker in memory: it can crash, freeze and lose messages, as a real one does.

All that a worker says to the broker passes through here. After a crash nothing of it arrives any more, not even the
orderly goodbyes that its cancelled tasks still say; while it is frozen everything waits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Any

from msgspec import Struct
from virtual_time import skew_s

from producer_sdk.broker import (
    DEFAULT_GROUP_OPTIONS,
    Admin,
    BrokerError,
    Committed,
    GroupOptions,
    Outgoing,
    Ownership,
    Placed,
    Record,
    TopicPartition,
)
from producer_sdk.memory import MemoryBroker

current: ContextVar[SimulatedProcess] = ContextVar("current")
LONGEST_TRIP_S = 0.05
HEARTBEAT_S = 3.0


class CommitFault(Enum):
    """What happens to commits."""

    NONE = "none"
    UNSENT = "unsent"  # they do not arrive
    UNHEARD = "unheard"  # they arrive, the response does not


class Weather(Struct):
    """The faults that all processes meet now. `committed` is told of each commit that has arrived."""

    rng: random.Random
    committed: Callable[[Mapping[TopicPartition, Committed]], None]
    commits: CommitFault = CommitFault.NONE


class SimulatedProcess:
    """A `Broker` for what runs in the process, and the process's life. `crashed` is set by whatever ends it."""

    def __init__(self, name: str, broker: MemoryBroker, weather: Weather) -> None:
        self.name = name
        self.skew_s = 0.0
        self.crashed = asyncio.Event()
        self.weather = weather
        self._broker = broker
        self._members: list[Any] = []
        self._put_out: frozenset[int] = frozenset()
        self._notices_at = 0.0
        self._thawed = asyncio.Event()
        self._thawed.set()

    def enter(self) -> None:
        """Make this the process of the calling task and of all that it starts."""
        current.set(self)
        skew_s.set(lambda: self.skew_s)

    def crash(self) -> None:
        self.crashed.set()
        self._thawed.set()
        self.vanish()

    def vanish(self) -> None:
        """The group hears nothing of it any more, and puts it out at the next `expire`."""
        for member in self._members:
            self._broker.kill(member)
        self._put_out = frozenset(map(id, self._members))
        self._notices_at = asyncio.get_running_loop().time() + HEARTBEAT_S

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._notices_at = asyncio.get_running_loop().time() + HEARTBEAT_S
        self._thawed.set()

    def check_membership(self, member: object) -> None:
        """Raises BrokerError once a member that the group has put out would know by its next heartbeat."""
        if id(member) in self._put_out and asyncio.get_running_loop().time() > self._notices_at:
            raise BrokerError("the group no longer knows this member")

    async def until_thawed(self) -> None:
        await self._thawed.wait()

    async def runs(self) -> None:
        """Pass while the process runs; wait while it is frozen. Raises BrokerError after a crash."""
        await self.until_thawed()
        if self.crashed.is_set():
            raise BrokerError(f"{self.name} has crashed")

    async def trip(self) -> None:
        """A message travels to the broker or back."""
        await self.runs()
        await asyncio.sleep(self.weather.rng.uniform(0.0, LONGEST_TRIP_S))
        await self.runs()

    def producer(self) -> SimulatedProducer:
        return SimulatedProducer(self, self._broker.producer())

    def admin(self) -> Admin:
        return self._broker.admin()

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> SimulatedConsumer:
        member = self._broker.member(group, topics, _Informed(self, ownership), options)
        self._members.append(member)
        return SimulatedConsumer(self, member)

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> SimulatedConsumer:
        return SimulatedConsumer(self, self._broker.reader(partitions, from_end=from_end))


class _Informed:
    """An owner of partitions in a process that may be gone by the time that it is told."""

    def __init__(self, process: SimulatedProcess, owner: Ownership) -> None:
        self._process = process
        self._owner = owner

    async def assigned(self, starts: Any) -> None:
        await self._told(self._owner.assigned(starts))

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._told(self._owner.revoked(partitions))

    async def _told(self, telling: Awaitable[None]) -> None:
        async def tell() -> None:
            self._process.enter()
            await self._process.until_thawed()
            await telling

        await asyncio.create_task(tell(), name="tell of partitions")


class SimulatedProducer:
    """Implements `broker.Producer`."""

    def __init__(self, process: SimulatedProcess, inner: Any) -> None:
        self._process = process
        self._inner = inner

    async def start(self) -> None:
        await self._process.runs()
        await self._inner.start()

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> Awaitable[Placed]:
        await self._process.trip()
        acknowledged = await self._inner.publish(topic, record, partition)

        async def answer() -> Placed:
            placed: Placed = await acknowledged
            await self._process.trip()
            return placed

        return answer()

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        await self._process.trip()
        first: int = await self._inner.publish_batch(topic, partition, records)
        await self._process.trip()
        return first

    async def stop(self, timeout_s: float = 10.0) -> None:
        if not self._process.crashed.is_set():
            await self._inner.stop(timeout_s)


class SimulatedConsumer:
    """Implements `broker.Consumer`; whatever is not here is the inner one's."""

    def __init__(self, process: SimulatedProcess, inner: Any) -> None:
        self._process = process
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def start(self) -> None:
        await self._process.trip()
        await self._inner.start()

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        await self._process.runs()
        self._process.check_membership(self._inner)
        polled: Mapping[TopicPartition, Sequence[Record]] = await self._inner.poll(max_records, timeout_s)
        await self._process.runs()
        return polled

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        await self._process.trip()
        weather = self._process.weather
        if weather.commits is CommitFault.UNSENT:
            raise BrokerError("the commit was not answered in time")
        await self._inner.commit(offsets)
        weather.committed(offsets)
        if weather.commits is CommitFault.UNHEARD:
            raise BrokerError("the commit was not answered in time")
        await self._process.trip()

    async def stop(self, timeout_s: float = 10.0) -> None:
        if not self._process.crashed.is_set():
            await self._inner.stop(timeout_s)
