"""The producer on aiokafka: idempotent, acknowledged by all in-sync replicas, every wait bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    RecordListTooLargeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ._kafka_faults import Refusals, in_words
from ._kafka_options import KafkaOptions
from ._kafka_session import Session, Together
from ._sessions import Sessions
from .broker import BrokerError, NoSuchPlace, Outgoing, OutOfTurn, Placed
from .errors import HeadraceError, PayloadTooLarge
from .rights import Operation

_GRACE_S = 1.0
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError, RecordTooLargeError)


class Acknowledged:
    """Awaitable of the broker's acknowledgement of one record."""

    __slots__ = ("_future", "_record", "_session", "_topic")

    def __init__(self, future: asyncio.Future[Any], session: Session, topic: str, record: Outgoing) -> None:
        self._future = future
        self._session = session
        self._topic = topic
        self._record = record

    def __await__(self) -> Generator[object, None, Placed]:
        try:
            placed = yield from self._future.__await__()
        except KafkaError as err:
            self._session.broken = True
            raise _fault(err, self._topic, _size(self._record), self._session.refusals) from err
        return Placed(placed.topic, placed.partition, placed.offset)


class AcknowledgedTogether:
    """Awaitable of the broker's acknowledgement of all records of a batch."""

    __slots__ = ("_session", "_together", "_topic")

    def __init__(self, together: Together, session: Session, topic: str) -> None:
        self._together = together
        self._session = session
        self._topic = topic

    def __await__(self) -> Generator[object, None, Placed]:
        """Where its first record lies."""
        try:
            placed = yield from self._together.future.__await__()
        except KafkaError as err:
            self._session.broken = True
            raise _fault(err, self._topic, self._together.batch._builder.size(), self._session.refusals) from err
        return Placed(placed.topic, placed.partition, placed.offset)


class KafkaProducer:
    """Implements `broker.Producer` and `broker.AtOnce`. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self._options = options
        self._sessions = Sessions(lambda: Session(bootstrap_servers, options), options.send_timeout_s)

    async def start(self) -> None:
        """Connect. Raises BrokerError."""
        await self._sessions.renewed()

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> Acknowledged:
        if record.key is None and record.value is None:
            raise ValueError("a record needs a key or a value")
        while True:
            session = self._sessions.usable or await self._sessions.renewed()
            known = session.topics.get(topic)
            if known is not None and partition in known.partitions:
                place = known.partitions[partition]
            else:
                place = await session.place(topic, partition, record.key)
            try:
                future = await session.send(place, record)
                return Acknowledged(future, session, topic, record)
            except ProducerClosed:
                session.broken = True  # it ended while the record waited for room: the record goes with the next
            except KafkaError as err:
                raise self._unsent(err, topic, _size(record)) from err

    def publish_now(self, topic: str, record: Outgoing, partition: int) -> AcknowledgedTogether | None:
        session = self._sessions.usable
        known = None if session is None else session.topics.get(topic)
        if session is None or known is None or partition not in known.partitions:
            return None
        try:
            together = session.send_now(known.partitions[partition], record)
        except KafkaError as err:
            raise self._unsent(err, topic, _size(record)) from err
        if together is None:
            return None
        if together.acknowledged is None:
            together.acknowledged = AcknowledgedTogether(together, session, topic)
        acknowledged: AcknowledgedTogether = together.acknowledged
        return acknowledged

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        session = self._sessions.usable or await self._sessions.renewed()
        place = await session.place(topic, partition, None)
        batches = self._packed(session, topic, records)
        acknowledgements: list[asyncio.Future[Any]] = []
        try:
            for batch in batches:
                acknowledgements.append(await session.send_batch(place, batch))
            placed = [await acknowledgement for acknowledgement in acknowledgements]
        except KafkaError as err:
            size = max(batch.size() for batch in batches)
            if not acknowledgements and isinstance(err, KafkaTimeoutError):
                raise self._unsent(err, topic, size) from err
            session.broken = True
            raise _fault(err, topic, size, session.refusals) from err
        finally:
            for acknowledgement in acknowledgements:
                if not acknowledgement.cancel() and not acknowledgement.cancelled():
                    acknowledgement.exception()
        return int(placed[0].offset)

    async def stop(self, timeout_s: float = 10.0) -> None:
        await self._sessions.stop(timeout_s, _GRACE_S)

    def _packed(self, session: Session, topic: str, records: Sequence[Outgoing]) -> list[Any]:
        batches: list[Any] = []
        records_left: Sequence[Outgoing] = records
        while records_left:
            batch = session.producer.create_batch()
            batches.append(batch)
            taken = fill(batch, records_left)
            assert taken, "a builder takes its first record at any size"
            records_left = records_left[taken:]
        for batch in batches:
            # A builder takes its first record at any size, so a batch above the limit is one record.
            if batch.size() > self._options.max_record_bytes:
                raise self._too_large(topic, batch.size())
            batch.close()
        if not batches:
            raise ValueError("publish_batch needs at least one record")
        return batches

    def _unsent(self, err: KafkaError, topic: str, size: int) -> HeadraceError:
        if isinstance(err, MessageSizeTooLargeError):
            return self._too_large(topic, size)
        return BrokerError(f"the record for topic {topic!r} found no room in the buffer: {in_words(err)}")

    def _too_large(self, topic: str, size: int) -> PayloadTooLarge:
        limit = self._options.max_record_bytes
        return PayloadTooLarge(f"the record for topic {topic!r} has {size} bytes: at most {limit} are accepted")


def fill(batch: Any, records: Sequence[Outgoing]) -> int:
    """Write records into a builder that is empty until it takes no more; how many it took.

    What its own `append` does around each record costs as much as the writing.
    """
    count, append = 0, batch._builder.append
    for key, value, headers, timestamp_ms in records:
        if append(count, timestamp_ms, key, value, list(headers) if headers else []) is None:
            break
        count += 1
    batch._relative_offset = count
    return count


def _size(record: Outgoing) -> int:
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(record.key, record.value, list(record.headers)))


def _fault(err: KafkaError, topic: str, size: int, refusals: Refusals) -> HeadraceError:
    if isinstance(err, TopicAuthorizationFailedError):
        return refusals.topic(Operation.WRITE, topic, f"publish to topic {topic!r}")
    if isinstance(err, ClusterAuthorizationFailedError):
        return refusals.numbering()
    if isinstance(err, _TOO_LARGE):
        return PayloadTooLarge(
            f"the record for topic {topic!r} has {size} bytes: more than the topic's max.message.bytes"
        )
    if isinstance(err, UnknownTopicOrPartitionError):
        return NoSuchPlace(f"the record for topic {topic!r} was not taken: the topic or its partition is gone")
    if isinstance(err, OutOfOrderSequenceNumber):
        return OutOfTurn(f"the record for topic {topic!r} was not taken, as those sent before it were not")
    return BrokerError(f"the record for topic {topic!r} was not acknowledged and may have arrived: {in_words(err)}")
