"""Publishing to the broker in memory, and the faults that a test can ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence

from ._memory_logs import Logs
from .broker import BrokerError, Outgoing, Placed
from .errors import HeadraceError


class Faults:
    """What goes wrong on purpose. `failing`: topic -> the error, and whether the record arrives all the same."""

    def __init__(self) -> None:
        self.failing: dict[str, tuple[HeadraceError, bool]] = {}
        self.held: list[asyncio.Future[None]] | None = None  # acknowledgements that wait, None lets them pass

    def hold(self) -> asyncio.Future[None] | None:
        """What the acknowledgement of a record published now has to wait for."""
        if self.held is None:
            return None
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]

    def release(self) -> None:
        held, self.held = self.held or [], None
        for future in held:
            if not future.done():
                future.set_result(None)


class MemoryAcknowledged:
    """Awaitable of the acknowledgement of one record."""

    __slots__ = ("_held", "_outcome")

    def __init__(self, outcome: Placed | HeadraceError, held: asyncio.Future[None] | None) -> None:
        self._outcome = outcome
        self._held = held

    def __await__(self) -> Generator[object, None, Placed]:
        if self._held is not None:
            yield from self._wait(self._held).__await__()
        if isinstance(self._outcome, HeadraceError):
            raise self._outcome
        return self._outcome

    @staticmethod
    async def _wait(held: asyncio.Future[None]) -> None:
        await asyncio.shield(held)


class MemoryProducer:
    """Implements `broker.Producer`. One event loop; any task."""

    def __init__(self, logs: Logs, faults: Faults, send_timeout_s: float) -> None:
        self._logs = logs
        self._faults = faults
        self._send_timeout_s = send_timeout_s
        self._waiting: set[asyncio.Future[None]] = set()
        self._running = False

    async def start(self) -> None:
        self._running = True

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> MemoryAcknowledged:
        if record.key is None and record.value is None:
            raise ValueError("a record needs a key or a value")
        self._check(topic, record)
        chosen = self._logs.place(topic, record.key) if partition is None else partition
        return MemoryAcknowledged(self._append(topic, chosen, record), self._hold())

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        if not records:
            raise ValueError("publish_batch needs at least one record")
        for record in records:
            self._check(topic, record)
        outcomes = [self._append(topic, partition, record) for record in records]
        held = self._hold()
        placed = [await MemoryAcknowledged(outcome, held) for outcome in outcomes]
        return placed[0].offset

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._running = False
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=timeout_s)
        for held in tuple(self._waiting):
            self._give_up(held)

    def _check(self, topic: str, record: Outgoing) -> None:
        if not self._running:
            raise BrokerError("the producer in memory is not running")
        self._logs.check_size(topic, record)

    def _append(self, topic: str, partition: int, record: Outgoing) -> Placed | HeadraceError:
        error, arrives = self._faults.failing.get(topic, (None, True))
        placed = self._logs.append(topic, partition, record) if arrives else None
        return error or placed or BrokerError(f"the record for topic {topic!r} was not acknowledged")

    def _hold(self) -> asyncio.Future[None] | None:
        held = self._faults.hold()
        if held is not None:
            self._waiting.add(held)
            held.add_done_callback(self._waiting.discard)
            asyncio.get_running_loop().call_later(self._send_timeout_s, self._give_up, held)
        return held

    def _give_up(self, held: asyncio.Future[None]) -> None:
        if not held.done():
            held.set_exception(BrokerError("the record was not acknowledged in time and may have arrived"))
            held.exception()  # who does not wait for it wants no log entry either
