"""A member of a consumer group on librdkafka; partitions come and go by themselves, the others are kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from ._kafka_options import KafkaOptions
from ._rdkafka_commit import Unsettled, commit_now
from ._rdkafka_committed import starts_of
from ._rdkafka_connect import counts
from ._rdkafka_consumer import RdConsumer
from ._rdkafka_faults import RDKAFKA_FAULTS, group_fault, in_words
from ._rdkafka_settings import GroupProtocol, group_settings
from .broker import BrokerError, CommitRefused, Committed, GroupOptions, NoSuchPlace, Ownership, TopicPartition

_OF_EVERY_CONSUMER = frozenset([KafkaError._BAD_MSG, KafkaError.TOPIC_AUTHORIZATION_FAILED,
                                KafkaError.GROUP_AUTHORIZATION_FAILED])  # fmt: skip
Partitions = frozenset[TopicPartition]


class RdMember(RdConsumer):
    """Implements `broker.Consumer` for a group.

    librdkafka tells of partitions in the consuming thread, which waits there while the ownership is told in the loop.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        options: KafkaOptions,
        group: str,
        topics: frozenset[str],
        ownership: Ownership,
        group_options: GroupOptions,
        protocol: GroupProtocol,
    ) -> None:
        super().__init__(bootstrap_servers, options, group, **group_settings(group_options, protocol))
        self._topics = topics
        self._ownership = ownership
        self._group_options = group_options
        self._member_id = ""
        self._begun: dict[TopicPartition, int] = {}  # where the last assignment begins; the consuming thread's
        self._is_incremental = protocol == "consumer"  # by the classic one all partitions go and come at once
        self._telling: concurrent.futures.Future[None] | None = None  # what the consuming thread waits for
        self._polled_at = time.monotonic()

    async def poll(self, max_records: int, timeout_s: float) -> Any:
        self._polled_at = time.monotonic()
        return await super().poll(max_records, timeout_s)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        limit_s = self._options.commit_timeout_s
        unsettled: BrokerError | None = None
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    self._check_ours(offsets)
                    try:
                        await self._ask(lambda: self._commit(offsets))
                        return
                    except Unsettled as err:
                        unsettled = err
                    await asyncio.sleep(self._options.retry_backoff_s)
        except TimeoutError as err:
            late = BrokerError(f"group {self._group!r} did not answer a commit within {limit_s:g} s")
            raise unsettled or late from err
        except RDKAFKA_FAULTS as err:
            raise BrokerError(f"group {self._group!r} did not take a commit: {in_words(err)}") from err

    def _commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Called in the consuming thread."""
        self._check_ours(offsets)
        commit_now(self._consumer, self._group, self._member_id, offsets, self._refusals)

    def _check_ours(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        if self._stopped or not offsets.keys() <= self._partitions:
            raise CommitRefused(f"group {self._group!r} has given the partitions to somebody else")

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._stopped = True
        if self._telling is not None:
            self._telling.cancel()
        await super().stop(timeout_s)
        self._partitions = frozenset()

    def _reads(self) -> list[str]:
        return sorted(self._topics)

    def _begin(self, consumer: Any, cluster: Any) -> None:
        missing = self._topics - counts(cluster).keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise NoSuchPlace(f"topics {names} do not exist at {self._name}: create them first")
        consumer.subscribe(
            sorted(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _alone(self) -> bool:
        limit_s = self._group_options.max_poll_interval_s
        if time.monotonic() - self._polled_at <= limit_s:
            return False
        self._post(self._lose)
        self._post(self._fail_with, BrokerError(f"group {self._group!r} was left after {limit_s:g} s without a poll"))
        return True

    def _described(self, error: Any, message: Any) -> BrokerError:
        if error.code() in _OF_EVERY_CONSUMER:
            return super()._described(error, message)
        return group_fault(self._name, self._group, self._group_options.instance_id, error)

    def _on_assign(self, consumer: Any, assigned: Sequence[Any]) -> None:
        """Called in the consuming thread."""
        partitions = frozenset(TopicPartition(each.topic, each.partition) for each in assigned)
        starts: dict[TopicPartition, Committed] = {}  # filled by the loop
        if not self._stopped:
            try:
                member_id = consumer.memberid()
            except RDKAFKA_FAULTS as err:
                self._post(self._failed_on, "assigned", err)
            else:
                self._tell("assigned", lambda: self._assign(member_id, partitions, starts))
        self._begun = {each: starts[each].offset if each in starts else 0 for each in partitions}
        assign = consumer.incremental_assign if self._is_incremental else consumer.assign
        assign([KafkaPartition(*each, at) for each, at in self._begun.items()])

    def _on_revoke(self, consumer: Any, revoked: Sequence[Any]) -> None:
        """Called in the consuming thread."""
        partitions = frozenset(TopicPartition(each.topic, each.partition) for each in revoked)
        if not self._stopped:
            self._tell("revoked", lambda: self._revoke(partitions))
        if self._thread is not None:
            self._thread.going(partitions)
        if self._is_incremental:
            consumer.incremental_unassign(list(revoked))
        else:
            self._begun = {}
            consumer.unassign()

    def _on_lost(self, consumer: Any, lost: Sequence[Any]) -> None:
        """Called in the consuming thread: others may have the partitions already, so nothing of them is committed."""
        self._post(self._lose)
        self._on_revoke(consumer, lost)

    def _tell(self, what: str, telling: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have the loop do it and wait for that; called in the consuming thread."""
        try:
            self._telling = asyncio.run_coroutine_threadsafe(self._told(what, telling), self._loop)
        except RuntimeError:  # the loop has ended with the program
            self._stopped = True
            return
        try:
            if not self._stopped and self._thread is not None:
                self._thread.wait(self._telling, self._group_options.rebalance_timeout_s)
        except concurrent.futures.CancelledError:
            pass  # the consumer stops
        except TimeoutError:
            self._telling.cancel()
            late = TimeoutError(f"not done within rebalance_timeout_s ({self._group_options.rebalance_timeout_s:g} s)")
            self._post(self._failed_on, what, late)
        finally:
            self._telling = None

    async def _told(self, what: str, telling: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await telling()
        except Exception as err:  # noqa: BLE001 - the owner's code, which must not end the thread that waits
            self._failed_on(what, err)

    def _failed_on(self, what: str, err: BaseException) -> None:
        self._fail_with(BrokerError(f"the member of group {self._group!r} failed on partitions {what}: {err!r}"), err)

    def _seek_now(self, partition: TopicPartition, offset: int) -> None:
        if self._is_incremental:
            super()._seek_now(partition, offset)
        elif self._thread is not None:
            if partition in self._begun:
                self._begun |= self._thread.read_to(self._begun) | {partition: offset}
                self._thread.going(frozenset(self._begun))
                self._consumer.assign([KafkaPartition(*each, at) for each, at in self._begun.items()])
            self._post(self._seek_done, partition)

    async def _assign(self, member_id: str, partitions: Partitions, starts: dict[TopicPartition, Committed]) -> None:
        starts |= await starts_of(self._name, self._options, self._group, partitions)
        self._member_id = member_id
        self._partitions |= starts.keys()
        self._shelf.own({partition: start.offset for partition, start in starts.items()})
        self._paused = frozenset()
        self._choose()
        await self._ownership.assigned(starts)

    async def _revoke(self, partitions: Partitions) -> None:
        self._took(self._shelf.drop(partitions))
        try:
            if partitions:
                await self._ownership.revoked(partitions)
        finally:
            self._partitions -= partitions
            self._paused -= partitions
            self._choose()

    def _lose(self) -> None:
        self._took(self._shelf.drop(self._partitions))
        self._partitions = frozenset()
