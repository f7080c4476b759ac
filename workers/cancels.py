"""Which requests are cancelled: the cancels topic, read from its beginning for as long as the worker lives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from producer_sdk.broker import Broker, Record
from producer_sdk.cancels import follow_cancels, read_cancel
from producer_sdk.errors import HeadraceError, InvalidRequest
from producer_sdk.topics import Topics

from .events import heard

MAX_IDS = 100_000
KEPT_S = 3600.0  # as long as the topic keeps them
FORGET_EVERY_S = 60.0
BLIND_AFTER_S = 5.0  # a worker that cannot read cancels for so long serves without them
LOOK_S = 0.25
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
STOP_S = 3.0
_log = logging.getLogger("headrace.worker")


class _Known(Struct, frozen=True, gc=False):
    """Up to when requests of an id are cancelled, by the canceller's clock, and when that was read, monotonic."""

    at_ms: int
    read_s: float


class Cancels:
    """The cancels of the last hour, at most 100,000 ids of them; the oldest leave first. One event loop.

    `cancelled` is called after each haul that brought something new.

    Attributes:
        caught_up: set once all cancels from before the start are known, or cannot be read.
        unreadable: records of the topic that are no cancel.
        crowded_out: ids that left before their hour, because too many others came.
    """

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        allowance_s: float,
        cancelled: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowance_ms = round(allowance_s * 1000)
        self._cancelled = cancelled
        self._clock = clock
        self._topic = topics.cancels
        self._known: dict[str, _Known] = {}  # in the order in which they were read
        self._follower = follow_cancels(broker, topics, self._take)
        self.caught_up = asyncio.Event()
        self.unreadable = 0
        self.crowded_out = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, id: str) -> bool:
        """Whether requests of the id were cancelled, up to some time."""
        return id in self._known

    def covers(self, id: str, published_ms: int) -> bool:
        """Whether a request is cancelled; `published_ms` is its record's timestamp, below 0 where it has none."""
        known = self._known.get(id)
        return known is not None and published_ms <= known.at_ms + self._allowance_ms

    async def run(self) -> None:
        """Read until cancelled; called once. A broker that does not answer is asked again, ever more seldom."""
        blind = asyncio.get_running_loop().call_later(BLIND_AFTER_S, self._go_blind)
        try:
            await self._start()
            blind.cancel()
            await self._catch_up()
            while True:
                await asyncio.sleep(FORGET_EVERY_S)
                self._forget_old()
        finally:
            blind.cancel()
            await self._stop()

    async def _start(self) -> None:
        pause_s, warned = FIRST_PAUSE_S, False
        while True:
            try:
                return await self._follower.start()
            except Exception as err:  # noqa: BLE001 - the top of this task, without which the worker still serves
                why = err.message if isinstance(err, HeadraceError) else f"{type(err).__name__}: {err}"
                level = logging.DEBUG if warned else logging.WARNING
                _log.log(level, "Cancels are not read yet: %s", why, exc_info=not isinstance(err, HeadraceError),
                         extra={"action": "cancels_unread"})  # fmt: skip
                warned = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _catch_up(self) -> None:
        blind_s = 0.0
        while not await heard(self._follower.caught_up, LOOK_S):
            blind_s = blind_s + LOOK_S if self._follower.failed is not None else 0.0
            if blind_s >= BLIND_AFTER_S:
                self._go_blind()
                return
        self.caught_up.set()

    def _go_blind(self) -> None:
        if not self.caught_up.is_set():
            _log.warning("Requests that were cancelled may run: %s cannot be read", self._topic,
                         extra={"action": "cancels_blind"})  # fmt: skip
            self.caught_up.set()

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(STOP_S):
                await self._follower.stop()
        except TimeoutError:
            _log.debug("The reader of cancels does not close.")

    def _take(self, records: Sequence[Record]) -> None:
        now_s, any_new = self._clock(), False
        for record in records:
            try:
                cancel = read_cancel(record.value)
            except InvalidRequest:
                self.unreadable += 1
                continue
            before = self._known.pop(cancel.id, None)
            at_ms = cancel.at_ms if before is None else max(cancel.at_ms, before.at_ms)
            self._known[cancel.id] = _Known(at_ms, now_s)
            any_new = any_new or before is None or at_ms > before.at_ms
        while len(self._known) > MAX_IDS:
            del self._known[next(iter(self._known))]
            self.crowded_out += 1
        self._forget_old()
        if any_new:
            self._cancelled()

    def _forget_old(self) -> None:
        oldest_s = self._clock() - KEPT_S
        while self._known:
            id, known = next(iter(self._known.items()))
            if known.read_s >= oldest_s:
                return
            del self._known[id]
