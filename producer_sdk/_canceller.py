"""Send the cancels of one client: with an acknowledgement, or in the background for requests that were given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from .broker import Admin, NoSuchPlace, Producer
from .cancels import CANCELS_PARTITION, Cancel, cancel_record
from .errors import HeadraceError
from .system_topics import ensure_system_topics
from .topics import Topics

MAX_TOGETHER = 500
MAX_UNSENT = 20_000  # twice the requests that wait for replies unless told otherwise; a few megabytes

log = logging.getLogger(__name__)


class Canceller:
    """Belongs to the client's event loop.

    Attributes:
        unsent: cancels that were to be sent in the background and were not: the requests run their course.
    """

    def __init__(self, producer: Producer, admin: Admin, topics: Topics) -> None:
        self._producer = producer
        self._admin = admin
        self._topics = topics
        self._topic_is_there = False
        self._waiting: list[Cancel] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.unsent = 0

    async def send(self, cancels: Sequence[Cancel]) -> None:
        """Publish, and wait for the acknowledgement.

        Raises:
            BrokerError: the cancels may have arrived or not; again is harmless.
        """
        try:
            await self._publish(cancels)
        except NoSuchPlace:  # the topic was deleted since it was looked for
            self._topic_is_there = False
            await self._publish(cancels)

    def send_soon(self, cancels: Sequence[Cancel]) -> None:
        """Publish in the background, together with others; what fails is logged and counted."""
        room = 0 if self._closed else MAX_UNSENT - len(self._waiting)
        self._waiting += cancels[:room]
        self.unsent += len(cancels[room:])
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._send_waiting(), name="headrace-cancel")

    async def close(self, timeout_s: float) -> None:
        """Take no more, and send what waits, within the time."""
        self._closed = True
        if self._task is None:
            return
        task = self._task
        await asyncio.wait({task}, timeout=timeout_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _publish(self, cancels: Sequence[Cancel]) -> None:
        if not self._topic_is_there:
            await ensure_system_topics(self._admin, self._topics)
            self._topic_is_there = True
        records = [cancel_record(cancel) for cancel in cancels]
        await self._producer.publish_batch(self._topics.cancels, CANCELS_PARTITION, records)

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                some, self._waiting = self._waiting[:MAX_TOGETHER], self._waiting[MAX_TOGETHER:]
                try:
                    await self.send(some)
                except HeadraceError as err:
                    self._failed(len(some), err.message)
        finally:
            self._task = None

    def _failed(self, count: int, why: str) -> None:
        self.unsent += count
        log.warning(
            "Cancels of %d requests were not sent, so they run their course: %s",
            count,
            why,
            extra={"action": "cancels_unsent"},
        )
