"""A member of a consumer group on aiokafka, fenced by the membership under which it got its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
)

from ._kafka_consumer import KafkaConsumer
from ._kafka_faults import in_words
from ._kafka_offsets import (
    MEMBERSHIP_GONE,
    Membership,
    commit_request,
    fetch_request,
    read_committed,
    read_fetched,
)
from ._kafka_options import KafkaOptions
from ._kafka_place import keep_place, watch_place
from ._static_member import taken_over
from .broker import BrokerError, CommitRefused, Committed, GroupOptions, NoSuchPlace, Ownership, TopicPartition

_COORDINATOR_MOVED = (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError)


class KafkaMember(KafkaConsumer):
    """Implements `broker.Consumer` for a group; the ownership is told in aiokafka's coordination task."""

    def __init__(
        self,
        bootstrap_servers: str,
        options: KafkaOptions,
        group: str,
        topics: frozenset[str],
        ownership: Ownership,
        group_options: GroupOptions,
    ) -> None:
        super().__init__(
            bootstrap_servers,
            options,
            group_id=group,
            group_instance_id=group_options.instance_id,
            session_timeout_ms=round(group_options.session_timeout_s * 1000),
            heartbeat_interval_ms=round(group_options.heartbeat_interval_s * 1000),
            rebalance_timeout_ms=round(group_options.rebalance_timeout_s * 1000),
            max_poll_interval_ms=round(group_options.max_poll_interval_s * 1000),
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
        )
        self._group = group
        self._instance_id = group_options.instance_id
        self._topics = topics
        self._ownership = ownership
        self._membership: Membership | None = None
        self._one_commit = asyncio.Lock()

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        limit_s = self._options.commit_timeout_s
        try:
            async with asyncio.timeout(limit_s), self._one_commit:
                await self._commit(offsets)
        except TimeoutError as err:
            raise BrokerError(f"group {self._group!r} did not answer a commit within {limit_s:g} s") from err
        except (KafkaError, OSError) as err:
            said = f"group {self._group!r} did not take a commit: {in_words(err)}"
            raise self._refused(err) or BrokerError(said) from err

    async def _begin(self, consumer: Any) -> None:
        missing = self._topics - await consumer.topics()
        if missing:
            names = ", ".join(sorted(missing))
            gone = NoSuchPlace(f"topics {names} do not exist at {self._name}: create them first")
            raise await self._or_hidden(gone, missing)
        if self._instance_id is not None:
            watch_place(consumer._coordinator, self._displaced)
        consumer.subscribe(list(self._topics), listener=_Listener(self._revoke, self._assign))

    def _displaced(self) -> None:
        self._fault = taken_over(self._group, self._instance_id)
        self._wake()

    async def _commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        membership = self._membership
        if membership is None or not offsets.keys() <= self._partitions:
            raise CommitRefused(f"group {self._group!r} has given the partitions to somebody else")
        coordinator = self._consumer._coordinator
        while True:
            await coordinator.ensure_coordinator_known()
            current = Membership(coordinator.generation, coordinator.member_id)
            if membership != current:
                raise CommitRefused(f"group {self._group!r} has given the partitions to somebody else")
            try:
                read_committed(await coordinator._send_req(commit_request(self._group, membership, offsets)))
                return
            except MEMBERSHIP_GONE as err:
                self._lost(coordinator, current, err)
                raise CommitRefused(f"group {self._group!r} no longer knows this member: {in_words(err)}") from err
            except KafkaError as err:
                await self._retry(coordinator, err)

    async def _revoke(self) -> None:
        if self._stopped:
            return
        self._held = True
        if self._membership is not None and self._instance_id is not None:
            await keep_place(self._consumer._coordinator, self._membership)
        if self._partitions:
            await self._tell("revoked", self._ownership.revoked(self._partitions))
        self._membership = None
        self._partitions = frozenset()

    async def _assign(self, partitions: frozenset[TopicPartition]) -> None:
        if self._stopped:
            return
        coordinator = self._consumer._coordinator
        self._membership = Membership(coordinator.generation, coordinator.member_id)
        self._partitions = partitions
        self._wanted = ()
        await self._tell("assigned", self._assigned(partitions))
        self._held = False
        self._wake()

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        async with asyncio.timeout(self._options.commit_timeout_s):
            starts = await self._starts(partitions)
        for partition, (offset, _) in starts.items():
            self._consumer.seek(KafkaPartition(*partition), offset)
        await self._ownership.assigned(starts)

    async def _starts(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        """Where reading begins: at what is committed, else at the oldest record."""
        committed = await self._committed(partitions)
        fresh = [KafkaPartition(*partition) for partition in partitions if partition not in committed]
        oldest = await self._consumer.beginning_offsets(fresh) if fresh else {}
        return {
            partition: committed[partition] if partition in committed else Committed(oldest[partition])
            for partition in sorted(partitions)
        }

    async def _committed(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        coordinator = self._consumer._coordinator
        while partitions:
            await coordinator.ensure_coordinator_known()
            try:
                return read_fetched(await coordinator._send_req(fetch_request(self._group, partitions)))
            except KafkaError as err:
                await self._retry(coordinator, err)
        return {}

    async def _tell(self, what: str, telling: Awaitable[None]) -> None:
        try:
            await telling
        except Exception as err:  # noqa: BLE001 - the owner's code; aiokafka would only log what it raises
            said = f"the member of group {self._group!r} failed on partitions {what}: {err!r}"
            self._fault = self._refused(err) or BrokerError(said)
            self._fault.__cause__ = err

    async def _retry(self, coordinator: Any, err: KafkaError) -> None:
        """Wait a moment before the next attempt, or raise where no attempt helps."""
        if not err.retriable:
            raise err
        if isinstance(err, _COORDINATOR_MOVED):
            coordinator.coordinator_dead()
        await asyncio.sleep(self._options.retry_backoff_s)

    def _lost(self, coordinator: Any, membership: Membership, err: KafkaError) -> None:
        """Let aiokafka join again at once, unless it has done so meanwhile."""
        if membership == Membership(coordinator.generation, coordinator.member_id):
            if isinstance(err, RebalanceInProgressError):
                coordinator.request_rejoin()
            else:
                coordinator.reset_generation()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes on what aiokafka tells."""

    def __init__(
        self, revoke: Callable[[], Awaitable[None]], assign: Callable[[frozenset[TopicPartition]], Awaitable[None]]
    ) -> None:
        self._revoke = revoke
        self._assign = assign

    async def on_partitions_revoked(self, revoked: set[KafkaPartition]) -> None:
        await self._revoke()

    async def on_partitions_assigned(self, assigned: set[KafkaPartition]) -> None:
        await self._assign(frozenset(TopicPartition(*partition) for partition in assigned))
