"""Reading on aiokafka: what members of a group and readers of fixed partitions share, and the reader.

`poll` never waits inside aiokafka, where a rebalance would hold it beyond its time: it takes what is there, and waits
by itself.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    CorruptRecordException,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    TopicAuthorizationFailedError,
)

from ._kafka_batches import keep_batches
from ._kafka_closing import close_wholly
from ._kafka_diagnosis import check_token_was_taken, connection_fault
from ._kafka_faults import KAFKA_FAULTS, Refusals, in_words, other_members, read_refusal
from ._kafka_fetch import end_of, shorten_waits, tasks_of
from ._kafka_fetch_wire import write_whole
from ._kafka_frames import read_frames
from ._kafka_hand_over import hand_over_first
from ._kafka_haul import haul
from ._kafka_hidden import or_hidden
from ._kafka_metadata import all_metadata, renew_metadata
from ._kafka_options import KafkaOptions
from ._kafka_unreadable import UNREADABLE, is_unreadable, mend, positions_of_fetched, rewind
from .broker import BrokerError, CommitRefused, Committed, Misconfigured, NoSuchPlace, Record, TopicPartition
from .rights import Operation

_KILL_LIMIT_S = 1.0


class KafkaConsumer(ABC):
    """Implements most of `broker.Consumer`. One event loop; one task polls, any task may call the rest."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions, **arguments: Any) -> None:
        self._name = bootstrap_servers
        self._options = options
        self._refusals = Refusals(bootstrap_servers, options.security)
        self._arguments = arguments
        self._consumer: Any = None
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._fault: BrokerError | None = None
        self._stopped = False
        self._held = False  # the owner is being told of its partitions, until then polls give nothing
        self._wanted: tuple[KafkaPartition, ...] | None = ()  # what to ask for: () is everything, None is nothing
        self._waiter: asyncio.Future[None] | None = None
        self._watched: tuple[asyncio.Task[Any], ...] = ()  # without any of these aiokafka would wait for ever

    async def start(self) -> None:
        """Connect and begin to read. Raises BrokerError; an unknown topic is one, and is not created."""
        self._consumer = consumer = AIOKafkaConsumer(
            **self._options.connection(self._name),
            **self._arguments,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            check_crcs=self._options.check_crcs,
            fetch_max_bytes=self._options.fetch_max_bytes,
            max_partition_fetch_bytes=self._options.partition_fetch_bytes,
        )
        read_frames(consumer._client)
        close_wholly(consumer._client, self._options.security)
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                await consumer.start()
                check_token_was_taken(consumer._client, self._options)
                keep_batches(consumer._fetcher)
                write_whole(consumer._fetcher)
                hand_over_first(consumer._fetcher)
                shorten_waits(consumer._fetcher)
                self._watched = tasks_of(consumer)
                await self._begin(consumer)
        except BrokerError:
            await self.stop()
            raise
        except TopicAuthorizationFailedError as err:
            await self.stop()
            raise self._described(err) from err
        except KAFKA_FAULTS as err:
            await self.stop()
            raise await connection_fault(self._name, self._options, err) from err

    @abstractmethod
    async def _begin(self, consumer: Any) -> None:
        """Say what to read; the consumer is connected and reads nothing yet."""

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        while True:
            if self._fault is not None:
                raise self._fault
            try:
                records: Mapping[TopicPartition, Sequence[Record]] = await self._arrived(max_records)
                if records:
                    return records
                left_s = ends_at - loop.time()
                if left_s <= 0:
                    return records
                await self._something(loop, left_s)
            except (*KAFKA_FAULTS, ConsumerStoppedError) as err:
                self._fault = self._described(err)
                raise self._fault from err

    def assignment(self) -> frozenset[TopicPartition]:
        return self._partitions

    def pause(self, partitions: frozenset[TopicPartition]) -> None:
        self._consumer.pause(*self._readable(partitions))
        self._choose()

    def resume(self, partitions: frozenset[TopicPartition]) -> None:
        self._consumer.resume(*self._readable(partitions))
        self._choose()
        self._wake()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from the offset; ignored for a partition that is not assigned."""
        for readable in self._readable(frozenset([partition])):
            self._consumer.seek(readable, offset)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        raise CommitRefused("a reader of fixed partitions is in no group, so it cannot commit")

    async def end_offsets(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                await self._check_exist(partitions)
                ends = await self._consumer.end_offsets([KafkaPartition(*partition) for partition in partitions])
        except KAFKA_FAULTS as err:
            raise BrokerError(f"Kafka at {self._name} gave no end offsets: {in_words(err)}") from err
        return {partition: ends[partition] for partition in partitions}

    def positions(self) -> Mapping[TopicPartition, int]:
        states = self._consumer._subscription.subscription.assignment
        positions = {}
        for partition in self._partitions:
            state = states.state_value(partition) if states is not None else None
            if state is not None and state.has_valid_position:
                positions[partition] = state.position
        return positions

    def lag(self) -> Mapping[TopicPartition, int]:
        subscription = None if self._consumer is None else self._consumer._subscription.subscription
        states = None if subscription is None else subscription.assignment
        lag = {}
        for partition in self._partitions:
            state = states.state_value(partition) if states is not None else None
            if state is not None and state.highwater is not None and state.has_valid_position:
                # What an open transaction holds back cannot be read yet.
                end = state.highwater if state.lso is None or state.lso < 0 else min(state.highwater, state.lso)
                lag[partition] = max(0, end - state.position)
        return lag

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._stopped = True
        if self._consumer is None:
            return
        closing = asyncio.create_task(self._consumer.stop(), name="kafka-consumer-close")
        await asyncio.wait({closing}, timeout=timeout_s)
        # aiokafka lets the cancellation of its own tasks out of `stop` when the broker is gone.
        if not closing.done() or closing.cancelled() or closing.exception() is not None:
            closing.cancel()
            await self._kill()

    async def _arrived(self, max_records: int, only: KafkaPartition | None = None) -> Any:
        consumer = self._consumer
        if self._stopped or consumer is None:
            raise ConsumerStoppedError("the consumer is stopped" if self._stopped else "the consumer is not started")
        for task in self._watched:
            if task.done():
                raise ConsumerStoppedError(f"a task of aiokafka ended: {task!r}") from end_of(task)
        consumer._coordinator.check_errors()
        subscription = consumer._subscription
        if self._held or subscription.reassignment_in_progress:
            return {}
        if self._wanted is None:
            # It counts as a poll, or the member would be put out after `max_poll_interval_s`.
            with subscription.fetch_context():
                return {}
        if only is not None and self._wanted and only not in self._wanted:
            return {}
        positions = positions_of_fetched(consumer)
        try:
            return haul(consumer, self._wanted if only is None else (only,), max_records)
        except UNREADABLE as err:
            if not is_unreadable(err):
                raise
            rewind(consumer, positions)
            mended = await mend(consumer, self._options, err)
        # Alone: an error of another partition in the same read would undo the mending, by turns for ever.
        return {} if mended is None else await self._arrived(max_records, mended)

    async def _something(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Wait until records arrive, `_wake` is called or the time is over."""
        self._waiter = self._consumer._fetcher._create_fetch_waiter()
        timer = loop.call_later(timeout_s, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _choose(self) -> None:
        """Name the partitions to ask for: aiokafka throws away what it has fetched of a paused one it is asked for."""
        paused = self._consumer.paused()
        self._wanted = tuple(self._consumer.assignment() - paused) or None if paused else ()

    def _readable(self, partitions: frozenset[TopicPartition]) -> list[KafkaPartition]:
        assigned = self._consumer.assignment()
        return [KafkaPartition(*partition) for partition in partitions if partition in assigned]

    async def _check_exist(self, partitions: frozenset[TopicPartition]) -> None:
        """Raises BrokerError for partitions that are not there; asks for all topics, as naming one could create it."""
        cluster = self._consumer._client.cluster
        if all(cluster.leader_for_partition(partition) is not None for partition in partitions):
            return
        cluster = await all_metadata(self._consumer._client)
        missing = [f"{p.topic}:{p.partition}" for p in partitions if cluster.leader_for_partition(p) is None]
        if missing:
            gone = NoSuchPlace(f"{', '.join(sorted(missing))} do not exist at {self._name}: create the topics first")
            raise await self._or_hidden(gone, {each.topic for each in partitions})

    async def _or_hidden(self, err: BrokerError, topics: Iterable[str]) -> BrokerError:
        return await or_hidden(err, self._name, self._options, Operation.READ, sorted(topics))

    def _refused(self, err: BaseException) -> BrokerError | None:
        return read_refusal(self._refusals, str(self._arguments["group_id"]), err)

    def _described(self, err: BaseException) -> BrokerError:
        if (refused := self._refused(err)) is not None:
            return refused
        if isinstance(err, InvalidSessionTimeoutError):
            allowed = (
                "group.min.session.timeout.ms to group.max.session.timeout.ms (6 s to 30 min, unless set otherwise)"
            )
            return Misconfigured(f"Kafka at {self._name} refuses session_timeout_s: it allows {allowed}")
        if isinstance(err, InconsistentGroupProtocolError):
            return other_members(self._name, self._arguments["group_id"])
        where = ""
        if isinstance(err, CorruptRecordException):
            for partition, result in self._consumer._fetcher._records.items():
                if str(partition) in str(err) and result.has_more():
                    offset = result._partition_records.next_fetch_offset
                    where = f" in topic {partition.topic!r} partition {partition.partition} from offset {offset}"
        return BrokerError(f"the consumer of Kafka at {self._name} cannot go on{where}, build it anew: {in_words(err)}")

    async def _kill(self) -> None:
        """End all tasks of the aiokafka consumer: its own stop waits for a rebalance without a limit."""
        consumer = self._consumer
        consumer._closed = True
        coordinator, fetcher = consumer._coordinator, consumer._fetcher
        names = ("_coordination_task", "_heartbeat_task", "_commit_refresh_task", "_reset_committed_task")
        tasks = {task for name in names if (task := getattr(coordinator, name, None)) is not None}
        tasks |= {fetcher._fetch_task, *fetcher._pending_tasks} if fetcher is not None else set()
        for task in tasks:
            task.cancel()
        await consumer._client.close()
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=_KILL_LIMIT_S)
            for task in done:
                if not task.cancelled():
                    task.exception()
        self._wake()


class KafkaReader(KafkaConsumer):
    """Reads fixed partitions from positions that `start` has fixed."""

    def __init__(
        self, bootstrap_servers: str, options: KafkaOptions, partitions: frozenset[TopicPartition], *, from_end: bool
    ) -> None:
        super().__init__(bootstrap_servers, options, group_id=None)
        self._partitions = partitions
        self._from_end = from_end

    async def _begin(self, consumer: Any) -> None:
        await renew_metadata(consumer._client)
        await self._check_exist(self._partitions)
        wanted = [KafkaPartition(*partition) for partition in self._partitions]
        offsets = await (consumer.end_offsets(wanted) if self._from_end else consumer.beginning_offsets(wanted))
        consumer.assign(wanted)
        for partition in wanted:
            consumer.seek(partition, offsets[partition])
