"""Whether Kafka answers: its client tries on in silence when Kafka goes away, so the gateway asks by itself."""

from __future__ import annotations

import asyncio
import logging
import time

from producer_sdk.broker import Admin, BrokerError

ASK_EVERY_S = 2.0
JUDGE_EVERY_S = 0.5
LOST_AFTER_S = 5.0

log = logging.getLogger("headrace.gateway")


class Contact:
    """Asks Kafka for its topics every two seconds. Belongs to the event loop; the admin thread may read `lost`."""

    def __init__(self, admin: Admin, name: str) -> None:
        self._admin = admin
        self._name = name
        self._answered_at = time.monotonic()
        self._unanswered_since: float | None = None
        self._is_lost = False

    @property
    def lost(self) -> str | None:
        """That Kafka does not answer and since when; None while it does."""
        if not self._is_lost:
            return None
        return f"{self._name} has not answered for {time.monotonic() - self._answered_at:.0f} s"

    async def watch(self) -> None:
        """Ask for as long as it runs; say once that Kafka is lost, and once that it is back."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask(), name="headrace-kafka-ask")
            group.create_task(self._judge(), name="headrace-kafka-judge")

    async def _ask(self) -> None:
        while True:
            if self._unanswered_since is None:
                self._unanswered_since = time.monotonic()
            try:
                # Not bounded here: the client ends a request in its own time, and the connection with it.
                await self._admin.topics()
            except BrokerError as err:
                log.debug("Kafka did not list its topics: %s", err.message)
            else:
                self._note_answer()
            await asyncio.sleep(ASK_EVERY_S)

    def _note_answer(self) -> None:
        now = time.monotonic()
        if self._is_lost:
            silent_s = now - self._answered_at
            log.info("%s answers again, after %.0f s.", self._name, silent_s, extra={"action": "kafka_back"})
        self._is_lost, self._answered_at, self._unanswered_since = False, now, None

    async def _judge(self) -> None:
        while True:
            since = self._unanswered_since
            if not self._is_lost and since is not None and time.monotonic() - since >= LOST_AFTER_S:
                self._is_lost = True
                log.warning("%s: not ready until it does.", self.lost, extra={"action": "kafka_lost"})
            await asyncio.sleep(JUDGE_EVERY_S)
