"""The producer on librdkafka: idempotent, acknowledged by all in-sync replicas, every wait bounded."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Generator, Iterator, Sequence

from confluent_kafka import KafkaException

from ._kafka_options import KafkaOptions
from ._rdkafka_faults import GONE_PLACE, publish_fault
from ._rdkafka_session import GRACE_S, Sending, Session
from ._sessions import Sessions
from .broker import Outgoing, Placed
from .errors import PayloadTooLarge

_BY_KEY = -1  # librdkafka takes Kafka's hash of the key
_FRAMING_BYTES = 61 + 26  # of a batch that holds one record, and of that record at most


class RdAcknowledged:
    """Awaitable of the broker's acknowledgement of one record."""

    __slots__ = ("_record", "_sending", "_topic")

    def __init__(self, sending: Sending, topic: str, record: Outgoing) -> None:
        self._sending = sending
        self._topic = topic
        self._record = record

    def __await__(self) -> Generator[object, None, Placed]:
        try:
            partition, offset = yield from self._sending.done.__await__()
        except KafkaException as err:
            refusals = self._sending.session.refusals
            raise publish_fault(err.args[0], self._topic, _size(self._record), refusals) from err
        return Placed(self._topic, partition, offset)


class RdProducer:
    """Implements `broker.Producer`. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self._options = options
        self._sessions = Sessions(lambda: Session(bootstrap_servers, options), options.send_timeout_s)
        self._alone = Sessions(lambda: Session(bootstrap_servers, options), options.send_timeout_s)
        self._is_alone = asyncio.Lock()  # held while that session has a batch
        self._turns: dict[str, Iterator[int]] = {}  # of keyless records, which go round the partitions

    async def start(self) -> None:
        """Connect. Raises BrokerError."""
        await self._sessions.renewed()

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> RdAcknowledged:
        if record.key is None and record.value is None:
            raise ValueError("a record needs a key or a value")
        self._check_size(topic, record)
        session = self._sessions.usable or await self._sessions.renewed()
        if partition is None or partition >= session.topics.get(topic, 0):
            partition = self._place(topic, await session.partitions(topic, partition), record, partition)
        sending = Sending(session)
        await self._send(session, topic, partition, (record,), sending)
        return RdAcknowledged(sending, topic, record)

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        if not records:
            raise ValueError("publish_batch needs at least one record")
        largest = max([len(value or b"") for _, value, _, _ in records])
        if largest > self._options.max_record_bytes // 2:  # else only headers can be too large, which librdkafka sees
            self._check_size(topic, max(records, key=_size))
        try:
            return await self._publish_all(self._sessions, topic, partition, records)
        except PayloadTooLarge:  # librdkafka may have put them into one batch with others
            async with self._is_alone:
                return await self._publish_all(self._alone, topic, partition, records)

    async def _publish_all(
        self, sessions: Sessions[Session], topic: str, partition: int, records: Sequence[Outgoing]
    ) -> int:
        session = sessions.usable or await sessions.renewed()
        if partition >= session.topics.get(topic, 0):
            await session.partitions(topic, partition)
        sending = Sending(session)
        await self._send(session, topic, partition, records, sending)
        try:
            _, offset = await sending.done
        except KafkaException as err:
            raise publish_fault(err.args[0], topic, max(map(_size, records)), session.refusals) from err
        return offset

    async def stop(self, timeout_s: float = 10.0) -> None:
        await asyncio.gather(*[each.stop(timeout_s, GRACE_S) for each in (self._sessions, self._alone)])

    def _place(self, topic: str, count: int, record: Outgoing, partition: int | None) -> int:
        """That partition, else one by the key, else the next: many producers begin their round elsewhere."""
        if partition is not None:
            return partition
        if record.key is not None:
            return _BY_KEY
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = itertools.count(random.randrange(count))
        return next(turn) % count

    def _check_size(self, topic: str, record: Outgoing) -> None:
        size, limit = _size(record), self._options.max_record_bytes
        if size > limit:
            raise PayloadTooLarge(f"the record for topic {topic!r} has {size} bytes: at most {limit} are accepted")

    async def _send(
        self, session: Session, topic: str, partition: int, records: Sequence[Outgoing], sending: Sending
    ) -> None:
        try:
            await session.send(topic, partition, records, sending)
        except KafkaException as err:
            if err.args[0].code() in GONE_PLACE:
                session.topics.clear()
            raise publish_fault(err.args[0], topic, max(map(_size, records)), session.refusals) from err


def _size(record: Outgoing) -> int:
    """Bytes of the record as the only one of its batch, at most."""
    size = len(record.value or b"") + len(record.key or b"") + _FRAMING_BYTES
    return (
        size + sum(len(name.encode()) + len(value) + 10 for name, value in record.headers) if record.headers else size
    )
