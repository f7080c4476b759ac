"""Watches the reply topics while a fault lasts: every outcome, when it came, and those of topics deleted since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from chaos_judge import Told, told_by

from producer_sdk.broker import Broker, BrokerError, Consumer, TopicPartition

POLL_S = 0.2
PAUSE_S = 0.2


class Watch:
    """One reader of fixed partitions, built anew where it left off when it is lost. One task runs it."""

    def __init__(self, broker: Broker, partitions: Iterable[TopicPartition], dead: str) -> None:
        self._broker = broker
        self._partitions = frozenset(partitions)
        self._dead = dead
        self._positions: dict[TopicPartition, int] = {}
        self.told: list[Told] = []
        self.first_at: dict[str, float] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            reader = self._broker.reader(self._partitions, from_end=False)
            try:
                await reader.start()
                for partition, position in self._positions.items():
                    reader.seek(partition, position)
                while True:
                    await self._poll(reader)
            except BrokerError:
                await asyncio.sleep(PAUSE_S)
            finally:
                await reader.stop(2.0)

    @asynccontextmanager
    async def also(self, partition: TopicPartition) -> AsyncIterator[None]:
        """Watch a topic that will be deleted, until then; what was read of it stays known."""
        other = Watch(self._broker, [partition], self._dead)
        other.told, other.first_at = self.told, self.first_at
        watching = asyncio.create_task(other.run(), name=f"watch {partition.topic}")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _poll(self, reader: Consumer) -> None:
        for partition, records in (await reader.poll(500, POLL_S)).items():
            for record in records:
                told = told_by(record)
                self.told.append(Told(told.id, "", dead=True) if record.topic == self._dead else told)
                self.first_at.setdefault(told.id, time.monotonic())
            self._positions[TopicPartition(*partition)] = records[-1].offset + 1
