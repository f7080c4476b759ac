"""One aiokafka producer from its start to its end.

Kafka numbers the records of an idempotent producer; aiokafka leaves a gap there after a refused batch, and every later
batch of that partition is refused. So a session ends with its first fault, and the producer opens another.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import (
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
    UnknownTopicOrPartitionError,
)
from aiokafka.partitioner import murmur2
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ._kafka_closing import close_wholly
from ._kafka_diagnosis import check_token_was_taken, connection_fault
from ._kafka_faults import KAFKA_FAULTS, Refusals, in_words
from ._kafka_frames import read_frames
from ._kafka_hidden import or_hidden
from ._kafka_metadata import renew_metadata
from ._kafka_options import KafkaOptions
from .broker import BrokerError, NoSuchPlace, Outgoing
from .rights import Operation

_KILL_LIMIT_S = 1.0
_TRIM_AT = 10_000


class KnownTopic(NamedTuple):
    """`led` have a leader; `spread` goes round those."""

    name: str
    partitions: dict[int, KafkaPartition]
    led: set[int]
    spread: Iterator[KafkaPartition]

    def place(self, partition: int | None, key: bytes | None) -> KafkaPartition:
        """That partition, else one by Kafka's hash of the key, else the next. Raises NoSuchPlace if there is none."""
        if partition is None:
            if key is None:
                return next(self.spread)
            partition = (murmur2(key) & 0x7FFFFFFF) % len(self.partitions)
        if partition not in self.partitions:
            raise NoSuchPlace(f"topic {self.name!r} has no partition {partition}: it has {len(self.partitions)}")
        return self.partitions[partition]


class Together:
    """Records that are sent and acknowledged as one batch. The future may be cancelled.

    `acknowledged` is for who sent them.
    """

    __slots__ = ("acknowledged", "batch", "future")

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.future: asyncio.Future[Any] = asyncio.shield(batch.future)
        self.future.add_done_callback(_note_failure)
        self.acknowledged: Any = None


class Session:
    """Knows the topics that exist and ends what is not acknowledged in time. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self.broken = False
        self.topics: dict[str, KnownTopic] = {}  # to be looked up again after each change of the cluster
        self._known: dict[str, KnownTopic] = {}
        self.producer = AIOKafkaProducer(
            **options.connection(bootstrap_servers),
            acks="all",
            enable_idempotence=True,
            compression_type=None,
            linger_ms=0,
            max_batch_size=options.max_record_bytes,
            max_request_size=options.max_record_bytes,
        )
        read_frames(self.producer.client)
        close_wholly(self.producer.client, options.security)
        self._name = bootstrap_servers
        self._options = options
        self.refusals = Refusals(bootstrap_servers, options.security)
        self._accumulator = self.producer._message_accumulator
        self._max_record_bytes = options.max_record_bytes
        self._timeout_s = options.send_timeout_s
        self._loop = asyncio.get_running_loop()
        self._expected: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._trim_at = _TRIM_AT
        self._timer: asyncio.TimerHandle | None = None
        self._together: dict[KafkaPartition, Together] = {}  # the newest of each partition

    async def open(self) -> None:
        """Connect and learn all topics. Raises BrokerError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.producer.start()
                check_token_was_taken(self.producer.client, self._options)
                await renew_metadata(self.producer.client)
        except KAFKA_FAULTS as err:
            await self._kill()
            raise await connection_fault(self._name, self._options, err) from err
        except asyncio.CancelledError:
            await self._kill()
            raise
        self.producer.client.cluster.add_listener(self._on_change)

    def _on_change(self, cluster: Any) -> None:
        """Forget the topics, and give up what waits for a partition that is gone: it would wait until its time."""
        self.topics.clear()
        for place, batches in list(self._accumulator._batches.items()):
            if place.partition not in (cluster.partitions_for_topic(place.topic) or ()):
                self.broken = True
                for batch in batches:
                    batch.failure(UnknownTopicOrPartitionError())
                    batch.future.exception()  # who does not wait for it wants no log entry
                    batch._drain_waiter.exception()

    async def place(self, topic: str, partition: int | None, key: bytes | None) -> KafkaPartition:
        """Where a record goes. A partition that is not known is looked for once more: topics grow.

        Raises:
            NoSuchPlace: there is no such topic or partition.
            NotAllowed: there may be, but the client may not see it.
            BrokerError: no answer.
        """
        known = self.topics.get(topic) or await self._look_up(topic)
        if partition is not None and partition not in known.partitions:
            known = await self._look_up(topic, again=True)
        return known.place(partition, key)

    async def _look_up(self, topic: str, *, again: bool = False) -> KnownTopic:
        """The topic's partitions. The look-up asks for all topics, as asking for one could create it."""
        client = self.producer.client
        if again or client.cluster.partitions_for_topic(topic) is None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await renew_metadata(client)
            except KAFKA_FAULTS as err:
                raise BrokerError(f"Kafka at {self._name} did not list its topics: {in_words(err)}") from err
        partitions = client.cluster.partitions_for_topic(topic)
        if not partitions:
            missing = NoSuchPlace(f"topic {topic!r} does not exist at {self._name}: create it first")
            raise await or_hidden(missing, self._name, self._options, Operation.WRITE, [topic])
        led = client.cluster.available_partitions_for_topic(topic) or partitions
        known = self._known.get(topic)
        if known is None or (known.partitions.keys(), known.led) != (partitions, led):
            places = {partition: KafkaPartition(topic, partition) for partition in sorted(partitions)}
            # Many producers start together: each begins its round elsewhere.
            spread = cycle([places[partition] for partition in random.sample(sorted(led), len(led))])
            known = self._known[topic] = KnownTopic(topic, places, led, spread)
        self.topics[topic] = known
        return known

    async def send(self, place: KafkaPartition, record: Outgoing) -> asyncio.Future[Any]:
        """Queue one record; waits while the partition's buffer is full. Raises KafkaError.

        It leaves out what aiokafka's own `send` does for each record: look-ups that `look_up` has done once.
        """
        key, value, headers, timestamp_ms = record
        named = list(headers) if headers else []
        if DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, named) > self._max_record_bytes:
            raise MessageSizeTooLargeError
        future: asyncio.Future[Any] = await self._accumulator.add_message(
            place, key, value, self._timeout_s, timestamp_ms, named
        )
        self._expect(future)
        return future

    def send_now(self, place: KafkaPartition, record: Outgoing) -> Together | None:
        """Queue one record in the batch that gathers for its partition; None where it would have to wait for room.

        Its acknowledgement is that of the batch: a future for each record costs more than the rest of the sending.
        """
        key, value, headers, timestamp_ms = record
        named = list(headers) if headers else []
        if DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, named) > self._max_record_bytes:
            raise MessageSizeTooLargeError
        accumulator = self._accumulator
        if accumulator._closed or accumulator._exception is not None:
            return None
        waiting = accumulator._batches.get(place)
        batch = waiting[-1] if waiting else accumulator._append_batch(accumulator.create_builder(), place)
        if batch._builder.append(timestamp=timestamp_ms, key=key, value=value, headers=named) is None:
            return None
        together: Together | None = self._together.get(place)
        if together is None or together.batch is not batch:
            together = self._together[place] = Together(batch)
            together.future.add_done_callback(lambda _: self._forget(place, batch))
            self._expect(together.future)
        return together

    def _forget(self, place: KafkaPartition, batch: Any) -> None:
        """A batch that is done would keep its records."""
        together = self._together.get(place)
        if together is not None and together.batch is batch:
            del self._together[place]

    async def send_batch(self, place: KafkaPartition, batch: Any) -> asyncio.Future[Any]:
        """Queue a closed batch; waits while another is queued for the partition. Raises KafkaError."""
        await self._room(place)
        future: asyncio.Future[Any] = await self._accumulator.add_batch(batch, place, self._timeout_s)
        self._expect(future)
        return future

    async def _room(self, place: KafkaPartition) -> None:
        """Wait until nothing is queued for the partition. Raises KafkaError.

        aiokafka's own waiting takes the time since its start off what is left at every try, so the time of a hundred
        that wait for one partition is over after a tenth of it.
        """
        queued, until_s = self._accumulator._batches, self._loop.time() + self._timeout_s
        while batches := queued.get(place):
            left_s = until_s - self._loop.time()
            if left_s <= 0:
                raise KafkaTimeoutError
            await batches[-1].wait_drain(timeout=left_s)

    def _expect(self, future: asyncio.Future[Any]) -> None:
        """Fail the future with KafkaTimeoutError, and end the session, unless it is done in time."""
        expected = self._expected
        while expected and expected[0][1].done():  # thousands of finished futures would cost the garbage collector much
            expected.popleft()
        expected.append((self._loop.time() + self._timeout_s, future))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._expire)
        elif len(expected) > self._trim_at:
            self._expected = deque(entry for entry in expected if not entry[1].done())
            self._trim_at = max(_TRIM_AT, 2 * len(self._expected))

    async def close(self, timeout_s: float) -> None:
        """Flush and close within the time; what is unacknowledged then fails."""
        closing = asyncio.create_task(self.producer.stop(), name="kafka-producer-close")
        await asyncio.wait({closing}, timeout=timeout_s)
        if not closing.done() or closing.exception() is not None:
            closing.cancel()
            await self._kill()
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        now, expected = self._loop.time(), self._expected
        while expected and (expected[0][1].done() or expected[0][0] <= now):
            _, future = expected.popleft()
            if not future.done():
                self.broken = True
                future.set_exception(KafkaTimeoutError(f"no acknowledgement within {self._timeout_s:g} s"))
                future.exception()  # who does not wait for it wants no log entry either
        self._timer = self._loop.call_at(expected[0][0], self._expire) if expected else None

    async def _kill(self) -> None:
        """End all tasks of the aiokafka producer: its own stop waits for acknowledgements without a limit."""
        producer = self.producer
        producer._closed = True
        sender_task, accumulator = producer._sender.sender_task, self._accumulator
        if sender_task is not None:
            sender_task.cancel()
        await producer.client.close()
        give_up_at = self._loop.time() + _KILL_LIMIT_S
        while sender_task is not None and not sender_task.done() and self._loop.time() < give_up_at:
            # The sender waits for its requests, and those for a metadata update that no task makes any more.
            update = producer.client._md_update_fut
            if update is not None and not update.done():
                update.set_result(False)
            await asyncio.wait({sender_task}, timeout=0.05)
        batches = [batch for queue in accumulator._batches.values() for batch in queue]
        batches += accumulator._pending_batches
        accumulator.fail_all(ProducerClosed("the producer was closed before the acknowledgement"))
        for batch in batches:
            batch.future.exception()


def _note_failure(future: asyncio.Future[Any]) -> None:
    """Who does not wait for it wants no log entry."""
    if not future.cancelled():
        future.exception()
