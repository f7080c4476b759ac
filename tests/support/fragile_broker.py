"""A broker in memory whose readers fail as often as told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from producer_sdk.broker import BrokerError, Record, TopicPartition
from producer_sdk.testing import MemoryBroker


class FragileReader:
    """A reader of the broker in memory that fails as often as told."""

    def __init__(self, broker: FragileBroker, reader: Any) -> None:
        self._broker = broker
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def start(self) -> None:
        if self._broker.failing_starts:
            self._broker.failing_starts -= 1
            raise BrokerError("no broker answers")
        await self._reader.start()

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        if self._broker.failing_polls:
            self._broker.failing_polls -= 1
            raise self._broker.poll_fault
        polled: Mapping[TopicPartition, Sequence[Record]] = await self._reader.poll(max_records, timeout_s)
        return polled


class FragileBroker(MemoryBroker):
    """The next so many starts and polls of its readers fail, polls with `poll_fault`."""

    failing_polls = 0
    failing_starts = 0
    poll_fault: Exception = BrokerError("the connection is gone")

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> Any:
        return FragileReader(self, super().reader(partitions, from_end=from_end))
