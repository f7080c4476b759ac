"""Reading on librdkafka: what members of a group and readers of fixed partitions share.

A thread takes records from librdkafka as they come; the loop keeps them on a shelf until they are polled.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ._kafka_faults import Refusals
from ._kafka_hidden import or_hidden
from ._kafka_options import KafkaOptions
from ._rdkafka_connect import Contact, connected
from ._rdkafka_faults import RDKAFKA_FAULTS, error_of, in_words, passes, place_of, read_refusal, stuck
from ._rdkafka_offsets import NEWEST, offsets_of
from ._rdkafka_records import Haul
from ._rdkafka_settings import connection, consumer_settings
from ._rdkafka_shelf import Shelf
from ._rdkafka_thread import ConsumingThread
from .broker import BrokerError, CommitRefused, Committed, NoSuchPlace, Record, TopicPartition
from .rights import Operation

T = TypeVar("T")


class RdConsumer(ABC):
    """Implements most of `broker.Consumer`. One event loop; one task polls, any task may call the rest."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions, group: str, **settings: Any) -> None:
        self._name = bootstrap_servers
        self._options = options
        self._contact = Contact(bootstrap_servers, options)
        self._refusals = Refusals(bootstrap_servers, options.security)
        self._group = group
        self._settings = settings
        self._consumer: Any = None
        self._thread: ConsumingThread | None = None
        self._ended: asyncio.Future[None] | None = None
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._paused: frozenset[TopicPartition] = frozenset()
        self._sought: dict[TopicPartition, int] = {}  # sought anew: what comes of them until then is outdated
        self._shelf = Shelf()
        self._fault: BrokerError | None = None
        self._stopped = False
        self._waiter: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Connect and begin to read. Raises BrokerError; an unknown topic is one, and is not created."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        try:
            await connected(self._name, self._options, self._connect)
        except NoSuchPlace as err:
            raise await or_hidden(err, self._name, self._options, Operation.READ, self._reads()) from None
        post = self._poster
        self._thread = ConsumingThread(self._consumer, f"headrace-{self._group}", post(self._came), post(self._failed),
                                       post(self._gone), self._alone)  # fmt: skip
        self._thread.leaves = "group.instance.id" not in self._settings
        self._thread.start()

    def _reads(self) -> list[str]:
        """The topics to read."""
        return sorted({each.topic for each in self._partitions})

    @abstractmethod
    def _begin(self, consumer: Any, cluster: Any) -> None:
        """Say what to read; `cluster` are all topics. Blocks; called in a thread."""

    def _alone(self) -> bool:
        """Whether nobody has polled for so long that others should have the partitions. Called in the thread."""
        return False

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        while True:
            self._check()
            taken = self._shelf.take(max_records, self._paused)
            if taken:
                self._took(sum(map(len, taken.values())))
                if self._thread is not None and self._thread.paused:  # half may be taken now
                    self._choose()
                return taken
            left_s = ends_at - loop.time()
            if left_s <= 0:
                return taken
            self._waiter = loop.create_future()
            timer = loop.call_later(left_s, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()

    def assignment(self) -> frozenset[TopicPartition]:
        return self._partitions

    def pause(self, partitions: frozenset[TopicPartition]) -> None:
        self._paused |= partitions & self._partitions
        self._choose()

    def resume(self, partitions: frozenset[TopicPartition]) -> None:
        self._paused -= partitions
        self._choose()
        self._wake()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from the offset; ignored for a partition that is not assigned."""
        if partition not in self._partitions or self._thread is None:
            return
        self._took(self._shelf.waiting([partition]))
        self._shelf.own({partition: offset})
        self._sought[partition] = self._sought.get(partition, 0) + 1
        self._choose()
        sought = self._thread.call(lambda: self._seek_now(partition, offset))
        sought.add_done_callback(lambda done: self._sought_in_vain(partition, done))

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        raise CommitRefused("a reader of fixed partitions is in no group, so it cannot commit")

    async def end_offsets(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._check()
        limit_s = self._options.send_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._ask(lambda: offsets_of(self._consumer, partitions, NEWEST, limit_s))
        except RDKAFKA_FAULTS as err:
            late = isinstance(err, TimeoutError)
            why = "no answer in time" if late else in_words(err)
            raise BrokerError(f"Kafka at {self._name} gave no end offsets: {why}") from err

    def positions(self) -> Mapping[TopicPartition, int]:
        return dict(self._shelf.positions)

    def lag(self) -> Mapping[TopicPartition, int]:
        return self._shelf.lag()

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._stopped = True
        self._wake()
        if self._thread is None or self._ended is None:
            if self._consumer is not None:
                await asyncio.to_thread(self._consumer.close)
            return
        self._thread.end()
        await asyncio.wait({self._ended}, timeout=timeout_s)  # past its time the thread closes on its own

    def _connect(self) -> None:
        self._consumer = consumer = ConfluentConsumer(
            connection(self._options, self._name, self._loop)
            | consumer_settings(self._options, self._group)
            | self._settings
            | {"error_cb": self._heard}
        )
        try:
            self._begin(consumer, self._contact.cluster(consumer))
        except BaseException:
            self._consumer = None
            consumer.close()
            raise

    def _heard(self, error: Any) -> None:
        """What librdkafka says of itself; called in whichever thread polls."""
        self._contact.heard(error)
        if error.fatal() and self._thread is not None:
            self._post(self._failed, KafkaException(error))

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._stopped or self._thread is None:
            state = "stopped" if self._stopped else "not started"
            raise BrokerError(f"the consumer of Kafka at {self._name} is {state}")

    def _came(self, haul: Haul) -> None:
        for message in haul.errors:
            if not self._passes(message.error()):
                self._fail_with(self._described(message.error(), message))
        for partition in self._sought.keys() & (haul.records.keys() | haul.ends.keys()):
            self._took(len(haul.records.pop(partition, ())))
            haul.ends.pop(partition, None)
        refused = self._shelf.add(haul)
        if refused:
            self._took(refused)
        if not self._paused.isdisjoint(haul.records):
            self._choose()
        self._wake()

    def _failed(self, err: BaseException) -> None:
        error = error_of(err)
        if error is None or not self._passes(error):
            self._fail_with(stuck(self._name, err) if error is None else self._described(error, None), err)

    def _passes(self, error: Any) -> bool:
        """Whether it goes on by itself after this."""
        return passes(error)

    def _described(self, error: Any, message: Any) -> BrokerError:
        topic = None if message is None else message.topic()
        if (refused := read_refusal(self._refusals, self._group, error, topic)) is not None:
            return refused
        return stuck(self._name, error, "" if message is None else place_of(message, self._shelf.positions))

    def _fail_with(self, fault: BrokerError, cause: BaseException | None = None) -> None:
        if self._fault is None:
            self._fault = fault
            fault.__cause__ = cause
            self._wake()

    def _gone(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _ask(self, question: Callable[[], T]) -> T:
        """Have the thread answer, which touches the consumer alone. Raises BrokerError for one that has ended."""
        if self._thread is None or self._ended is None or self._ended.done():
            raise BrokerError(f"the consumer of Kafka at {self._name} has ended")
        return await self._thread.call(question)

    def _took(self, count: int) -> None:
        if self._thread is not None:
            self._thread.took(count)

    def _choose(self) -> None:
        """Have librdkafka stop fetching paused partitions of which enough waits, so that others can be read.

        It throws away what it has fetched of a partition that it pauses: so that one is fetched again only when half of
        what waits of it is taken. Where all are paused, not taking is enough.
        """
        if (thread := self._thread) is not None:
            closed = self._paused if self._paused != self._partitions else frozenset()
            most, stopped = max(1, thread.most_kept), thread.paused
            waiting = {each: self._shelf.waiting([each]) for each in closed | stopped}
            thread.paused = frozenset(
                [each for each, count in waiting.items() if count >= most or (each in stopped and count > most // 2)]
            )
            thread.closed, thread.exempt = closed, sum([waiting[each] for each in closed])

    def _seek_now(self, partition: TopicPartition, offset: int) -> None:
        """Runs in the thread. A new assignment works in every state, where librdkafka's own seek does not."""
        if self._thread is not None:
            self._thread.going(frozenset([partition]))
        self._consumer.incremental_unassign([KafkaPartition(*partition)])
        self._consumer.incremental_assign([KafkaPartition(*partition, offset)])
        self._post(self._seek_done, partition)

    def _sought_in_vain(self, partition: TopicPartition, sought: asyncio.Future[None]) -> None:
        """Where a seek failed, what comes is read on; a partition that is still ours would be read from elsewhere."""
        if sought.cancelled() or (err := sought.exception()) is None or self._stopped:
            return
        self._seek_done(partition)
        if partition in self._partitions:
            self._failed(err)

    def _seek_done(self, partition: TopicPartition) -> None:
        self._sought[partition] -= 1
        if not self._sought[partition]:
            del self._sought[partition]

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _poster(self, call: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments: self._post(call, *arguments)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have it called by the loop, which may have ended with the program."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            if self._thread is not None:
                self._thread.end()
