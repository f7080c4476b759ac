"""A message broker in memory, for tests: Kafka's semantics in one process, and faults on request.

broker = MemoryBroker()
async with FakeWorker(broker, "iris", answer), Client(broker) as client: ...
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ._memory_consumer import MemoryMember, MemoryReader
from ._memory_group import Group
from ._memory_logs import Logs
from ._memory_producer import Faults, MemoryProducer
from .broker import (
    DEFAULT_GROUP_OPTIONS,
    MAX_RECORD_BYTES,
    BrokerError,
    Committed,
    Consumer,
    GroupOptions,
    Ownership,
    Topic,
    TopicPartition,
)
from .errors import HeadraceError

__all__ = ["MemoryBroker"]


class MemoryBroker:
    """Makes clients that share topics and groups of this object; all of them belong to one event loop.

    Args:
        clock: seconds since the epoch, for timestamps of records.
        max_record_bytes: largest record accepted, Kafka's framing included; a topic's `max.message.bytes` may be less.
        send_timeout_s: a held acknowledgement fails after this.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        max_record_bytes: int = MAX_RECORD_BYTES,
        send_timeout_s: float = 30.0,
    ) -> None:
        self._logs = Logs(clock, max_record_bytes)
        self._faults = Faults()
        self._groups: dict[str, Group] = {}
        self._send_timeout_s = send_timeout_s

    @property
    def name(self) -> str:
        return "the broker in memory"

    def producer(self) -> MemoryProducer:
        return MemoryProducer(self._logs, self._faults, self._send_timeout_s)

    def admin(self) -> MemoryAdmin:
        return MemoryAdmin(self._logs, self._groups)

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> MemoryMember:
        """A member of a group. `assigned` also tells a member that it has joined and got no partition."""
        joined = self._groups.setdefault(group, Group(group, self._logs.topics))
        return MemoryMember(self._logs, joined, topics, ownership, options)

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> MemoryReader:
        return MemoryReader(self._logs, partitions, from_end=from_end)

    def fail_publish(self, topic: str, error: HeadraceError | None, *, arrives: bool = False) -> None:
        """From now on acknowledgements of the topic's records raise the error; None ends that.

        With `arrives` the records are there all the same, as when only the acknowledgement was lost.
        """
        self._faults.failing.pop(topic, None)
        if error is not None:
            self._faults.failing[topic] = (error, arrives)

    def hold_acknowledgements(self) -> None:
        """Records published from now on arrive, but their acknowledgements wait for `release_acknowledgements`."""
        if self._faults.held is None:
            self._faults.held = []

    def release_acknowledgements(self) -> None:
        self._faults.release()

    def kill(self, consumer: Consumer) -> None:
        """The member vanishes without leaving: it reads nothing any more and holds its partitions until `expire`.

        A commit that it still sends is accepted before `expire`, and refused after.
        """
        if not isinstance(consumer, MemoryMember):
            raise TypeError(f"kill takes a member of a group of this broker, not {type(consumer).__name__}")
        consumer.kill()

    def expire(self) -> None:
        """The session timeout of the killed members passes."""
        for group in self._groups.values():
            group.expire()


class MemoryAdmin:
    """Implements `broker.Admin`."""

    def __init__(self, logs: Logs, groups: Mapping[str, Group]) -> None:
        self._logs = logs
        self._groups = groups

    async def start(self) -> None:
        """Nothing to connect to."""

    async def topics(self) -> Mapping[str, int]:
        return self._logs.topics()

    async def create_topics(self, topics: Sequence[Topic]) -> frozenset[str]:
        created, faults = set(), []
        for topic in topics:
            try:
                if self._logs.create(topic):
                    created.add(topic.name)
            except BrokerError as err:
                faults.append(err.message)
        if faults:
            raise BrokerError("; ".join(faults))
        return frozenset(created)

    async def committed(self, group: str) -> Mapping[TopicPartition, Committed]:
        return dict(self._groups[group].committed) if group in self._groups else {}

    async def stop(self) -> None:
        """Nothing to close."""
