"""Publishing to the broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from functools import partial

from ._memory_faults import Faults
from ._memory_logs import Logs
from .broker import BrokerError, Outgoing, Placed
from .errors import HeadraceError


class MemoryAcknowledged:
    """Awaitable of the acknowledgement of one record."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Placed | HeadraceError | asyncio.Future[Placed]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[object, None, Placed]:
        if isinstance(self._answer, asyncio.Future):
            return (yield from self._wait(self._answer).__await__())
        if isinstance(self._answer, HeadraceError):
            raise self._answer
        return self._answer

    @staticmethod
    async def _wait(answer: asyncio.Future[Placed]) -> Placed:
        return await asyncio.shield(answer)


class MemoryProducer:
    """Implements `broker.Producer`. One event loop; any task."""

    def __init__(self, logs: Logs, faults: Faults) -> None:
        self._logs = logs
        self._faults = faults
        self._waiting: set[asyncio.Future[Placed]] = set()
        self._running = False

    async def start(self) -> None:
        """Raises BrokerError when the broker cannot be reached in time."""
        await self._faults.reach("take a producer")
        self._running = True

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> MemoryAcknowledged:
        if record.key is None and record.value is None:
            raise ValueError("a record needs a key or a value")
        self._check(topic, record)
        chosen = self._logs.place(topic, record.key) if partition is None else partition
        return self._send(topic, chosen, record)

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        if not records:
            raise ValueError("publish_batch needs at least one record")
        for record in records:
            self._check(topic, record)
        acknowledgements = [self._send(topic, partition, record) for record in records]
        placed = [await acknowledgement for acknowledgement in acknowledgements]
        return placed[0].offset

    async def stop(self, timeout_s: float = 10.0) -> None:
        self._running = False
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=timeout_s)
        for answer in tuple(self._waiting):
            _give_up(answer)

    def _check(self, topic: str, record: Outgoing) -> None:
        if not self._running:
            raise BrokerError("the producer in memory is not running")
        self._logs.check_size(topic, record)

    def _send(self, topic: str, partition: int, record: Outgoing) -> MemoryAcknowledged:
        faults = self._faults
        if not faults.network.closed and not faults.acknowledgements.closed:
            return MemoryAcknowledged(self._append(topic, partition, record))
        answer: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        timer = asyncio.get_running_loop().call_later(faults.send_timeout_s, _give_up, answer)
        answer.add_done_callback(lambda _: timer.cancel())
        faults.network.through(partial(self._arrive, answer, topic, partition, record))
        return MemoryAcknowledged(answer)

    def _arrive(self, answer: asyncio.Future[Placed], topic: str, partition: int, record: Outgoing) -> None:
        if not answer.done():  # what was given up on is not sent any more
            try:
                outcome = self._append(topic, partition, record)
            except HeadraceError as err:  # the topic is gone
                outcome = err
            self._faults.acknowledgements.through(partial(_settle, answer, outcome))

    def _append(self, topic: str, partition: int, record: Outgoing) -> Placed | HeadraceError:
        error, arrives = self._faults.failing.get(topic, (None, True))
        placed = self._logs.append(topic, partition, record) if arrives else None
        return error or placed or BrokerError(f"the record for topic {topic!r} was not acknowledged")


def _settle(answer: asyncio.Future[Placed], outcome: Placed | HeadraceError) -> None:
    if answer.done():
        return
    if isinstance(outcome, HeadraceError):
        answer.set_exception(outcome)
        answer.exception()  # who does not wait for it wants no log entry either
    else:
        answer.set_result(outcome)


def _give_up(answer: asyncio.Future[Placed]) -> None:
    _settle(answer, BrokerError("the record was not acknowledged in time and may have arrived"))
