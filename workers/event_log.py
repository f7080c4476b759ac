"""What the worker started and committed, told on the events topic: the evidence of `headrace verify`.

Telling must never slow the work down nor stop it: it is synchronous and bounded, and what does not fit or cannot be
sent is left out. The numbers of the events then have a gap, so that nobody takes silence for innocence.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from producer_sdk.broker import BrokerError, Committed, Outgoing, Producer, TopicPartition
from producer_sdk.errors import PayloadTooLarge
from producer_sdk.event_records import CommittedOffset, Event, StartedRequest, encode_event

from .work import Work

MAX_WAITING = 20_000  # requests and partitions told of and not acknowledged yet: a few megabytes
MAX_STARTED = 256  # requests of one event, which then takes at most some 100 kB
MAX_COMMITTED = 64  # partitions of one event, whose texts have up to 4 kB each
MAX_SENT = 64  # events sent at once
LINGER_S = 0.1
PAUSE_S = 1.0
_log = logging.getLogger("headrace.worker")


class EventLog:
    """The events of one worker, all its models' together. One event loop touches it.

    `started` and `committed` take note; `run` publishes until it is cancelled, and `flush` then publishes the rest.

    Args:
        producer: of the worker; started.
        topic: must exist: `system_topics.events_topic`.
        worker: its name.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        worker: str,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._worker = worker
        self._life = secrets.token_hex(4)
        self._wall = wall
        self._monotonic = monotonic
        self._numbers = count()
        self._waiting: deque[Event] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self.dropped = 0  # events that were not kept

    def started(self, works: Sequence[Work]) -> None:
        """Requests are about to be given to the model."""
        now, at_ms = self._monotonic(), int(self._wall() * 1000)
        for first in range(0, len(works), MAX_STARTED):
            requests = tuple(_started(work, now, at_ms) for work in works[first : first + MAX_STARTED])
            self._keep(self._event(at_ms, started=requests), len(requests))

    def committed(self, offsets: Mapping[TopicPartition, Committed], asked_ms: int) -> None:
        """The broker has accepted a commit, for which it was asked at `asked_ms`."""
        every = [CommittedOffset(*partition, *committed) for partition, committed in offsets.items()]
        for first in range(0, len(every), MAX_COMMITTED):
            partitions = tuple(every[first : first + MAX_COMMITTED])
            self._keep(self._event(asked_ms, committed=partitions), len(partitions))

    async def run(self) -> None:
        """Publish what is told, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(LINGER_S)
            if not await self._send_all():
                await asyncio.sleep(PAUSE_S)

    async def flush(self, timeout_s: float) -> bool:
        """Publish what is left, for so long at most; whether all of it is acknowledged. After the end of `run`."""
        try:
            async with asyncio.timeout(timeout_s):
                sent = await self._send_all()
                while not sent:
                    await asyncio.sleep(LINGER_S)
                    sent = await self._send_all()
        except TimeoutError:
            return False
        return True

    def _event(
        self, at_ms: int, started: tuple[StartedRequest, ...] = (), committed: tuple[CommittedOffset, ...] = ()
    ) -> Event:
        return Event(self._worker, self._life, next(self._numbers), at_ms, started, committed)

    def _keep(self, event: Event, size: int) -> None:
        if self._size + size > MAX_WAITING:
            self._drop(event, "more happens than can be sent")
            return
        self._waiting.append(event)
        self._size += size
        self._wake.set()

    async def _send_all(self) -> bool:
        """Publish until nothing waits; False when the broker did not take some, which wait on."""
        while self._waiting:
            # Taken out only once acknowledged: after a lost acknowledgement they go twice, with the same numbers.
            events = [self._waiting[n] for n in range(min(MAX_SENT, len(self._waiting)))]
            if not await self._send(events):
                return False
            for event in events:
                self._waiting.popleft()
                self._size -= len(event.started) + len(event.committed)
        self._wake.clear()
        return True

    async def _send(self, events: Sequence[Event]) -> bool:
        key = self._worker.encode()
        try:
            await self._producer.publish_batch(self._topic, 0, [Outgoing(key, encode_event(each)) for each in events])
        except PayloadTooLarge as err:
            if len(events) == 1:
                self._drop(events[0], str(err))
                return True
            return all([await self._send([event]) for event in events])
        except BrokerError as err:
            _log.warning("Events are not acknowledged yet: %s", err, extra={"action": "events_unacknowledged"})
            return False
        return True

    def _drop(self, event: Event, why: str) -> None:
        if not self.dropped:
            _log.warning("Events are left out: %s", why, extra={"action": "events_dropped"})
        self.dropped += 1


def _started(work: Work, now: float, at_ms: int) -> StartedRequest:
    partition = work.source.ledger.partition
    deadline_ms = None if work.expires is None else at_ms + round((work.expires - now) * 1000)
    return StartedRequest(
        work.request.id,
        partition.topic,
        partition.partition,
        work.source.offset,
        work.attempts,
        work.alone,
        deadline_ms,
    )
