"""One confluent producer from its start to its end, with the thread that takes its delivery reports.

librdkafka keeps the order over faults that pass. After a fatal fault it sends nothing more, and after a record that was
not acknowledged in time what it holds is unknown: so a session ends with either, and the producer opens another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as ConfluentProducer

from ._kafka_options import KafkaOptions
from ._rdkafka_connect import Contact, counts
from ._rdkafka_faults import GONE_PLACE, RDKAFKA_FAULTS, in_words
from ._rdkafka_settings import connection, producer_settings
from .broker import BrokerError, NoSuchPlace, Outgoing

_POLL_S = 0.1
_PURGE_S = 1.0
GRACE_S = 2 * _PURGE_S + 1.0  # how much longer than its time a session may take to close
_ENDING = frozenset([KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE,
                     KafkaError._PURGE_INFLIGHT, KafkaError._FATAL])  # fmt: skip


class Sending:
    """Records whose acknowledgements are awaited together; `done` gets the offset of the first record.

    The reports arrive in the session's thread, which hands over what is complete once for all that came together.
    """

    __slots__ = ("_left", "_session", "done", "error", "first")

    def __init__(self, session: Session, count: int) -> None:
        self._session = session
        self._left = count
        self.done: asyncio.Future[tuple[int, int]] = session.loop.create_future()
        self.error: Any = None
        self.first: tuple[int, int] | None = None

    def delivered(self, error: Any, message: Any) -> None:
        """One record's report; called in the thread."""
        if error is not None:
            self.error = self.error or error
        elif self.first is None:
            self.first = message.partition(), message.offset()
        self._left -= 1
        if not self._left:
            self._session.completed.append(self)

    def settle(self) -> None:
        if self.done.done():
            return
        if self.error is None and self.first is not None:
            self.done.set_result(self.first)
            return
        if self.error.code() in _ENDING or self.error.fatal():
            self._session.broken = True
        if self.error.code() in GONE_PLACE:
            self._session.topics.clear()
        self.done.set_exception(KafkaException(self.error))
        self.done.exception()  # who does not wait for it wants no log entry


class Session:
    """Knows the topics that exist. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self.broken = False
        self.topics: dict[str, int] = {}  # partitions of each
        self.loop = asyncio.get_running_loop()
        self._contact = Contact(bootstrap_servers, options)
        self._name = bootstrap_servers
        self._options = options
        self._producer: Any = None
        self._thread = threading.Thread(target=self._run, name="headrace-producer", daemon=True)
        self.completed: list[Sending] = []  # by the thread, until it tells the loop
        self._closing_s: float | None = None
        self._ended: asyncio.Future[None] = self.loop.create_future()
        self._room = asyncio.Event()

    async def open(self) -> None:
        """Connect and learn all topics. Raises BrokerError."""
        try:
            self.topics = await asyncio.to_thread(self._connect)
        except KafkaException as err:
            raise BrokerError(f"no connection to Kafka at {self._name}: {in_words(err)}") from err
        self._thread.start()

    async def partitions(self, topic: str, partition: int | None) -> int:
        """How many partitions the topic has. One that is not known is looked for once more: topics grow.

        Raises:
            NoSuchPlace: there is no such topic or partition.
            BrokerError: no answer.
        """
        known = self.topics.get(topic, 0)
        if known <= (partition or 0):
            try:
                cluster = await asyncio.to_thread(self._producer.list_topics, timeout=self._options.send_timeout_s)
            except RDKAFKA_FAULTS as err:
                raise BrokerError(f"Kafka at {self._name} did not list its topics: {in_words(err)}") from err
            self.topics = counts(cluster)
            known = self.topics.get(topic, 0)
        if not known:
            raise NoSuchPlace(f"topic {topic!r} does not exist at {self._name}: create it first")
        if partition is not None and not 0 <= partition < known:
            raise NoSuchPlace(f"topic {topic!r} has no partition {partition}: it has {known}")
        return known

    async def send(self, topic: str, partition: int, records: Sequence[Outgoing], sending: Sending) -> None:
        """Queue records; waits while the buffer is full, at most the time of a send.

        Raises:
            BrokerError: there came no room.
            KafkaException: a record was refused; those behind it are not sent.
        """
        delivered, produce = sending.delivered, self._producer.produce
        for key, value, headers, timestamp_ms in records:
            while True:
                try:
                    produce(topic, value, key, partition, delivered, delivered, timestamp_ms or 0,
                            list(headers) if headers else None)  # fmt: skip
                    break
                except BufferError:
                    await self._has_room(topic)

    async def _has_room(self, topic: str) -> None:
        self._room.clear()
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                await self._room.wait()
        except TimeoutError as err:
            raise BrokerError(f"the record for topic {topic!r} found no room in the buffer: no answer in time") from err

    async def close(self, timeout_s: float) -> None:
        """Flush and close within the time; what is unacknowledged then fails."""
        self._closing_s = timeout_s
        if self._thread.ident is None:
            return
        await asyncio.wait({self._ended}, timeout=timeout_s + 2 * _PURGE_S)

    def _connect(self) -> dict[str, int]:
        self._producer = ConfluentProducer(
            connection(self._options, self._name) | producer_settings(self._options) | {"error_cb": self._heard}
        )
        try:
            return counts(self._contact.cluster(self._producer))
        except BaseException:
            self._producer = None
            raise

    def _heard(self, error: Any) -> None:
        self._contact.heard(error)
        if error.fatal():
            self.broken = True

    def _run(self) -> None:
        """Take delivery reports until the session is closed; the producer ends with this thread."""
        producer = self._producer
        try:
            while self._closing_s is None:
                producer.poll(_POLL_S)
                self._tell()
            self._flush(producer)
        except RuntimeError:
            pass  # the loop has ended with the program
        finally:
            self._producer = None
            del producer
            try:
                self.loop.call_soon_threadsafe(self._is_ended)
            except RuntimeError:
                pass  # likewise

    def _flush(self, producer: Any) -> None:
        producer.flush(self._closing_s)
        if len(producer):
            producer.purge()
            producer.flush(_PURGE_S)
        self._tell()

    def _tell(self) -> None:
        if self.completed:
            completed, self.completed = self.completed, []
            self.loop.call_soon_threadsafe(self._settle, completed)

    def _settle(self, completed: Sequence[Sending]) -> None:
        for sending in completed:
            sending.settle()
        self._room.set()

    def _is_ended(self) -> None:
        self.broken = True
        if not self._ended.done():
            self._ended.set_result(None)
