"""Reads a topic of replies: the newest records first of all, then each one that comes."""

import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.broker_admin import admin_of
from headrace.topic_reader import TopicReader, bounds_of, open_reader
from producer_sdk.broker import Broker, Record, TopicPartition
from producer_sdk.errors import InvalidRequest

POLL_S = 0.5
MAX_POLL_RECORDS = 500


class ReplyReader:
    """What `open_replies` gives. Belongs to one task; call `last` once, then `next` as often as wanted."""

    def __init__(self, topic: TopicReader) -> None:
        self._topic = topic
        self._came_early: list[Record] = []

    async def last(self, limit: int) -> list[Record]:
        """The newest `limit` records of those that were there when the topic was opened, oldest first."""
        topic = self._topic
        for partition, end in topic.ends.items():
            topic.reader.seek(partition, max(topic.begins[partition], end - limit))
        newest: list[Record] = []
        while topic.is_behind:
            for record in await self._poll():
                is_new = record.offset >= topic.ends[TopicPartition(record.topic, record.partition)]
                (self._came_early if is_new else newest).append(record)
            newest = heapq.nlargest(limit, newest, key=_place)
        return newest[::-1]

    async def next(self) -> list[Record]:
        """Records that came after those, by their times; waits a moment for the first, and may give none."""
        early, self._came_early = self._came_early, []
        return early or await self._poll()

    async def _poll(self) -> list[Record]:
        polled = await self._topic.reader.poll(MAX_POLL_RECORDS, POLL_S)
        return sorted((record for records in polled.values() for record in records), key=_place)


@asynccontextmanager
async def open_replies(broker: Broker, topic: str) -> AsyncIterator[ReplyReader]:
    """The topic as it is now, read for the length of a block.

    Raises:
        InvalidRequest: there is no such topic.
        BrokerError: Kafka does not answer.
    """
    async with admin_of(broker) as admin:
        bounds = await bounds_of(admin, topic, (await admin.topics()).get(topic, 0))
    if not bounds:
        raise InvalidRequest(f"there is no topic {topic}: see `headrace topics list` for those there are")
    async with open_reader(broker, bounds) as reader:
        yield ReplyReader(reader)


def _place(record: Record) -> tuple[int, int, int]:
    return record.timestamp, record.partition, record.offset
