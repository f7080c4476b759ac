"""A message broker in memory, for tests: Kafka's semantics in one process, and faults on request.

broker = MemoryBroker()
async with FakeWorker(broker, "iris", answer), Client(broker) as client: ...
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ._memory_admin import MemoryAdmin
from ._memory_consumer import MemoryReader
from ._memory_faults import Faults
from ._memory_group import Group
from ._memory_logs import Logs
from ._memory_member import MemoryMember
from ._memory_producer import MemoryProducer
from .broker import (
    DEFAULT_GROUP_OPTIONS,
    MAX_RECORD_BYTES,
    Consumer,
    GroupOptions,
    Ownership,
    TopicPartition,
)
from .errors import HeadraceError

__all__ = ["MemoryBroker"]


class MemoryBroker:
    """Makes clients that share topics and groups of this object; all of them belong to one event loop.

    Args:
        clock: seconds since the epoch, for timestamps of records.
        max_record_bytes: largest record accepted, Kafka's framing included; a topic's `max.message.bytes` may be less.
        send_timeout_s: an acknowledgement that is held, and what else gets no answer, fails after this.
        commit_timeout_s: a commit that gets no answer fails after this.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        max_record_bytes: int = MAX_RECORD_BYTES,
        send_timeout_s: float = 30.0,
        commit_timeout_s: float = 10.0,
    ) -> None:
        self._logs = Logs(clock, max_record_bytes)
        self._faults = Faults(send_timeout_s, commit_timeout_s)
        self._groups: dict[str, Group] = {}

    @property
    def name(self) -> str:
        return "the broker in memory"

    def producer(self) -> MemoryProducer:
        return MemoryProducer(self._logs, self._faults)

    def admin(self) -> MemoryAdmin:
        return MemoryAdmin(self._logs, self._faults, self._groups)

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> MemoryMember:
        """A member of a group. `assigned` also tells a member that it has joined and got no partition.

        One with an `instance_id` does not leave when it stops: its partitions wait for the next of that id until
        `expire`, or until its session timeout.
        """
        joined = self._groups.setdefault(group, Group(group, self._logs.topics, self._faults.network))
        return MemoryMember(self._logs, self._faults, joined, topics, ownership, options)

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> MemoryReader:
        return MemoryReader(self._logs, self._faults, partitions, from_end=from_end)

    def fail_publish(self, topic: str, error: HeadraceError | None, *, arrives: bool = False) -> None:
        """From now on acknowledgements of the topic's records raise the error; None ends that.

        With `arrives` the records are there all the same, as when only the acknowledgement was lost.
        """
        self._faults.failing.pop(topic, None)
        if error is not None:
            self._faults.failing[topic] = (error, arrives)

    def hold_acknowledgements(self) -> None:
        """Records published from now on arrive, but their acknowledgements wait for `release_acknowledgements`."""
        self._faults.acknowledgements.close()

    def release_acknowledgements(self) -> None:
        self._faults.acknowledgements.open()

    def fail_commits(self, error: HeadraceError | None, *, arrives: bool = False) -> None:
        """From now on commits of all groups raise the error; None ends that.

        With `arrives` the offsets are committed all the same, as when only the answer was lost.
        """
        self._faults.failing_commits = None if error is None else (error, arrives)

    def hold_commits(self) -> None:
        """Offsets committed from now on arrive, but the answers wait for `release_commits`."""
        self._faults.commits.close()

    def release_commits(self) -> None:
        self._faults.commits.open()

    def away(self) -> None:
        """The broker cannot be reached until `back`: polls give nothing, groups stand still, all else waits.

        What waits longer than its time fails with BrokerError, and is not done later. A member that stops meanwhile
        cannot say so: it holds its partitions until `expire`, or until its session timeout.
        """
        self._faults.network.close()

    def back(self) -> None:
        self._faults.network.open()
        self._logs.wake(None)

    def gap(self, partition: TopicPartition, count: int) -> None:
        """The next so many offsets hold no record, as markers of transactions and compaction leave them."""
        self._logs.log(partition).gap(count)
        self._logs.wake(partition)

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """The log begins at the offset from now on, as retention does it."""
        self._logs.log(partition).cut(offset)
        self._logs.wake(partition)

    def drop_topic(self, name: str) -> None:
        """The topic is deleted, and with it what groups have committed of it; it can be created anew."""
        self._logs.drop(name)
        for group in self._groups.values():
            group.forget(name)

    def kill(self, consumer: Consumer) -> None:
        """The member vanishes without leaving: it reads nothing any more and holds its partitions until `expire`.

        A commit that it still sends is accepted before `expire`, and refused after.
        """
        if not isinstance(consumer, MemoryMember):
            raise TypeError(f"kill takes a member of a group of this broker, not {type(consumer).__name__}")
        consumer.kill()

    def expire(self) -> None:
        """The session timeout of the members passes that were killed, or stopped without leaving."""
        for group in self._groups.values():
            group.expire()
