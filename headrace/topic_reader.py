"""A topic as it is at a moment: where its partitions begin and end, and a reader of them from the oldest record on."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from producer_sdk.broker import Admin, Bounds, Broker, Consumer, TopicPartition


class TopicReader:
    """What `open_reader` gives. Belongs to one task, which may seek and poll its `reader`."""

    def __init__(self, reader: Consumer, bounds: Mapping[TopicPartition, Bounds]) -> None:
        self.reader = reader
        self.begins = {partition: each.first for partition, each in bounds.items()}
        self.ends = {partition: each.end for partition, each in bounds.items()}

    @property
    def is_behind(self) -> bool:
        """Whether a record of that moment is still to be polled."""
        return any(map(self._is_behind, self.ends))

    def _is_behind(self, partition: TopicPartition) -> bool:
        # Where the last records were deleted, the position never reaches the end, and only the lag says so.
        at_end = self.reader.positions().get(partition, 0) >= self.ends[partition]
        return not at_end and self.reader.lag().get(partition) != 0


async def bounds_of(admin: Admin, topic: str, count: int) -> Mapping[TopicPartition, Bounds]:
    """Where the `count` partitions of a topic begin and end now. Raises BrokerError."""
    return await admin.bounds(TopicPartition(topic, number) for number in range(count)) if count else {}


@asynccontextmanager
async def open_reader(broker: Broker, bounds: Mapping[TopicPartition, Bounds]) -> AsyncIterator[TopicReader]:
    """A reader of these partitions for the length of a block. Raises BrokerError: Kafka does not answer."""
    reader = broker.reader(frozenset(bounds), from_end=False)
    try:
        await reader.start()
        yield TopicReader(reader, bounds)
    finally:
        await reader.stop()
