"""One confluent producer from its start to its end; the event loop asks it for its delivery reports.

librdkafka keeps the order over faults that pass. After a fatal fault it sends nothing more, and after a record that was
not acknowledged in time what it holds is unknown: so a session ends with either, and the producer opens another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as ConfluentProducer

from ._kafka_faults import Refusals
from ._kafka_hidden import or_hidden
from ._kafka_options import KafkaOptions
from ._rdkafka_connect import Contact, connected, counts
from ._rdkafka_faults import GONE_PLACE, RDKAFKA_FAULTS, in_words
from ._rdkafka_settings import connection, producer_settings
from .broker import BrokerError, NoSuchPlace, Outgoing
from .rights import Operation

# A thread that waits for reports takes the interpreter from the loop for each of them: three times the CPU of looking.
_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.02  # while a report is missing
_IDLE_LOOK_S = 0.25  # for what librdkafka says of itself
_SLOWER = 1.25
_PURGE_S = 1.0
GRACE_S = 2 * _PURGE_S + 1.0  # how much longer than its time a session may take to close
_ENDING = frozenset([KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE,
                     KafkaError._PURGE_INFLIGHT, KafkaError._FATAL])  # fmt: skip

_NEVER_REPORTED = KafkaError(KafkaError._PURGE_QUEUE)


class Sending:
    """Records of one partition whose acknowledgements are awaited together; `done` gets the place of the first.

    The report of the last one ends it. An idempotent producer writes a partition's records in the order in which it got
    them, so by then those before it are written, or the report of a failure has come. For these a method of C notes the
    first report of each kind: it costs half of what a function of ours would.
    """

    __slots__ = ("_reports", "done", "note", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._reports: dict[Any, Any] = {}  # by error, None is success
        self.note = self._reports.setdefault
        self.done: asyncio.Future[tuple[int, int]] = session.loop.create_future()

    def delivered(self, error: Any, message: Any) -> None:
        """The report of the last record."""
        self.session.unreported.discard(self)
        self.note(error, message)
        if self.done.done():
            return
        error = next((each for each in self._reports if each is not None), None)
        if error is not None:
            error = self.session.fatal or error
        if error is None:
            first = self._reports[None]
            self.done.set_result((first.partition(), first.offset()))
            return
        if error.code() in _ENDING or error.fatal():
            self.session.broken = True
        if error.code() in GONE_PLACE:
            self.session.topics.clear()
        self.done.set_exception(KafkaException(error))
        self.done.exception()  # who does not wait for it wants no log entry


class Session:
    """Knows the topics that exist. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self.broken = False
        self.topics: dict[str, int] = {}  # partitions of each
        self.loop = asyncio.get_running_loop()
        self._contact = Contact(bootstrap_servers, options)
        self.refusals = Refusals(bootstrap_servers, options.security)
        self._name = bootstrap_servers
        self._options = options
        self._producer: Any = None
        self.fatal: Any = None  # why librdkafka sends nothing more
        self.unreported: set[Sending] = set()
        self._closing = False
        self._look_s = _IDLE_LOOK_S
        self._next_look: asyncio.TimerHandle | None = None
        self._reported = asyncio.Event()

    async def open(self) -> None:
        """Connect and learn all topics. Raises BrokerError."""
        self.topics = await connected(self._name, self._options, self._connect)
        self._look_in(_IDLE_LOOK_S)

    async def partitions(self, topic: str, partition: int | None) -> int:
        """How many partitions the topic has. One that is not known is looked for once more: topics grow.

        Raises:
            NoSuchPlace: there is no such topic or partition.
            NotAllowed: there may be, but the client may not see it.
            BrokerError: no answer.
        """
        known = self.topics.get(topic, 0)
        if known <= (partition or 0):
            try:
                cluster = await asyncio.to_thread(
                    self._open_producer().list_topics, timeout=self._options.send_timeout_s
                )
            except RDKAFKA_FAULTS as err:
                raise BrokerError(f"Kafka at {self._name} did not list its topics: {in_words(err)}") from err
            self.topics = counts(cluster)
            known = self.topics.get(topic, 0)
        if not known:
            missing = NoSuchPlace(f"topic {topic!r} does not exist at {self._name}: create it first")
            raise await or_hidden(missing, self._name, self._options, Operation.WRITE, [topic])
        if partition is not None and not 0 <= partition < known:
            raise NoSuchPlace(f"topic {topic!r} has no partition {partition}: it has {known}")
        return known

    async def send(self, topic: str, partition: int, records: Sequence[Outgoing], sending: Sending) -> None:
        """Queue records; waits while the buffer is full, at most the time of a send.

        Raises:
            BrokerError: there came no room.
            KafkaException: a record was refused; those behind it are not sent.
        """
        produce = self._open_producer().produce
        self.unreported.add(sending)
        reports: Iterable[Any] = chain(repeat(sending.note, len(records) - 1), (sending.delivered,))
        try:
            for (key, value, headers, timestamp_ms), report in zip(records, reports, strict=True):
                while True:
                    try:
                        produce(topic, value, key, partition, report, report, timestamp_ms or 0,
                                list(headers) if headers else None)  # fmt: skip
                        break
                    except BufferError:
                        await self._has_room(topic)
                        self._open_producer()  # it may have been closed meanwhile
        except BaseException:
            self.unreported.discard(sending)  # its last record is not queued, so no report will come
            raise
        self._look_soon()

    async def close(self, timeout_s: float) -> None:
        """Flush and close within the time; what is unacknowledged then fails."""
        if self._producer is None:
            return
        self._closing = True
        try:
            if not await self._is_emptied(timeout_s):
                self._producer.purge(blocking=False)
                await self._is_emptied(_PURGE_S)
        finally:
            self.broken = True
            if self._next_look is not None:
                self._next_look.cancel()
            ended = self._end()
            for sending in list(self.unreported):
                sending.delivered(_NEVER_REPORTED, None)
        await asyncio.wait({ended}, timeout=_PURGE_S)

    def _open_producer(self) -> Any:
        if self._producer is None or self._closing:
            raise BrokerError(f"the producer of Kafka at {self._name} is stopped")
        return self._producer

    async def _has_room(self, topic: str) -> None:
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                await self._news()
        except TimeoutError as err:
            raise BrokerError(f"the record for topic {topic!r} found no room in the buffer: no answer in time") from err

    async def _is_emptied(self, timeout_s: float) -> bool:
        """Whether all is reported within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(self._producer):
                    await self._news()
        except TimeoutError:
            return False
        return True

    async def _news(self) -> None:
        """Wait until a report has come."""
        self._reported.clear()
        self._look_soon()
        await self._reported.wait()

    def _end(self) -> asyncio.Future[None]:
        """Let go of the producer in a thread, for librdkafka then waits for its own."""
        held, self._producer = [self._producer], None
        ended: asyncio.Future[None] = self.loop.create_future()

        def has_ended() -> None:
            if not ended.done():
                ended.set_result(None)

        def let_go() -> None:
            held.clear()
            try:
                self.loop.call_soon_threadsafe(has_ended)
            except RuntimeError:
                pass  # the loop has ended with the program

        threading.Thread(target=let_go, name="headrace-producer", daemon=True).start()
        return ended

    def _connect(self) -> dict[str, int]:
        self._producer = ConfluentProducer(
            connection(self._options, self._name, self.loop)
            | producer_settings(self._options)
            | {"error_cb": self._heard}
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

    def _look(self) -> None:
        """Take the reports that have come, and look again: soon while some are missing, later the longer none comes."""
        came, producer = 0, self._producer
        if producer is None:
            return
        try:
            came = producer.poll(0)
        except KafkaException as err:
            self._give_up(err.args[0])
        finally:  # whatever a callback raises
            is_idle = not len(producer)
            if came or is_idle:
                self._reported.set()
            soon_s = _LOOK_S if came else min(_LONGEST_LOOK_S, self._look_s * _SLOWER)
            self._look_in(_IDLE_LOOK_S if is_idle else soon_s)

    def _give_up(self, error: Any) -> None:
        """librdkafka sends nothing more: have what it still holds reported."""
        if self.fatal is None:
            self.fatal, self.broken = error, True
            self._producer.purge(blocking=False)

    def _look_soon(self) -> None:
        if self._look_s > _LOOK_S:
            self._look_in(_LOOK_S)

    def _look_in(self, seconds: float) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        if self._producer is None:
            return
        self._look_s = seconds
        self._next_look = self.loop.call_later(seconds, self._look)
