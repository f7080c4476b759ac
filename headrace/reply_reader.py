"""Reads a topic of replies: the newest records first of all, then each one that comes."""

import heapq
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from headrace.broker_admin import admin_of
from producer_sdk.broker import Broker, Consumer, Record, TopicPartition
from producer_sdk.errors import InvalidRequest

POLL_S = 0.5
MAX_POLL_RECORDS = 500


class ReplyReader:
    """What `open_replies` gives. Belongs to one task; call `last` once, then `next` as often as wanted."""

    def __init__(self, reader: Consumer, ends: Mapping[TopicPartition, int]) -> None:
        self._reader = reader
        self._ends = ends
        self._came_early: list[Record] = []

    async def last(self, limit: int) -> list[Record]:
        """The newest `limit` records of those that were there when the topic was opened, oldest first."""
        begins = self._reader.positions()
        for partition, end in self._ends.items():
            self._reader.seek(partition, max(begins[partition], end - limit))
        newest: list[Record] = []
        while any(self._is_behind(partition) for partition in self._ends):
            for record in await self._poll():
                is_new = record.offset >= self._ends[TopicPartition(record.topic, record.partition)]
                (self._came_early if is_new else newest).append(record)
            newest = heapq.nlargest(limit, newest, key=_place)
        return newest[::-1]

    async def next(self) -> list[Record]:
        """Records that came after those, by their times; waits a moment for the first, and may give none."""
        early, self._came_early = self._came_early, []
        return early or await self._poll()

    def _is_behind(self, partition: TopicPartition) -> bool:
        # Where the last records were deleted, the position never reaches the end, and only the lag says so.
        at_end = self._reader.positions()[partition] >= self._ends[partition]
        return not at_end and self._reader.lag().get(partition) != 0

    async def _poll(self) -> list[Record]:
        polled = await self._reader.poll(MAX_POLL_RECORDS, POLL_S)
        return sorted((record for records in polled.values() for record in records), key=_place)


@asynccontextmanager
async def open_replies(broker: Broker, topic: str) -> AsyncIterator[ReplyReader]:
    """The topic as it is now, read for the length of a block.

    Raises:
        InvalidRequest: there is no such topic.
        BrokerError: Kafka does not answer.
    """
    async with admin_of(broker) as admin:
        count = (await admin.topics()).get(topic, 0)
    if not count:
        raise InvalidRequest(f"there is no topic {topic}: see `headrace topics list` for those there are")
    partitions = frozenset(TopicPartition(topic, number) for number in range(count))
    async with _started(broker.reader(partitions, from_end=True)) as at_end:
        ends = at_end.positions()
    async with _started(broker.reader(partitions, from_end=False)) as reader:
        yield ReplyReader(reader, ends)


@asynccontextmanager
async def _started(reader: Consumer) -> AsyncIterator[Consumer]:
    try:
        await reader.start()
        yield reader
    finally:
        await reader.stop()


def _place(record: Record) -> tuple[int, int, int]:
    return record.timestamp, record.partition, record.offset
