"""Reads partitions from their oldest record to a given end, however many records come meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headrace.topic_reader import open_reader
from producer_sdk.broker import Bounds, Broker, BrokerError, Consumer, Record, TopicPartition

POLL_S = 0.5
MAX_POLL_RECORDS = 2000
# A transaction that is not ended holds readers up for as long as its timeout says, a minute where nobody chose.
STALL_S = 90.0


async def read_partitions(
    broker: Broker,
    bounds: Mapping[TopicPartition, Bounds],
    take: Callable[[Record], None],
    *,
    stall_s: float = STALL_S,
) -> None:
    """Give each record within the bounds to `take`; those of one partition in order.

    Raises:
        BrokerError: the broker does not answer, or gives nothing more although the end is not reached.
    """
    filled = {partition: each for partition, each in bounds.items() if each.first < each.end}
    if filled:
        async with open_reader(broker, filled) as topic:
            await _read(topic.reader, topic.ends, take, stall_s)


async def _read(
    reader: Consumer, ends: dict[TopicPartition, int], take: Callable[[Record], None], stall_s: float
) -> None:
    moved_at = time.monotonic()
    before: Mapping[TopicPartition, int] = {}
    while ends:
        polled = await reader.poll(MAX_POLL_RECORDS, POLL_S)
        for partition, records in polled.items():
            end = ends.get(partition, 0)
            for record in records:
                if record.offset < end:
                    take(record)
        positions, lag = reader.positions(), reader.lag()
        # Where the last records were deleted meanwhile, no position reaches the end, and only the lag says so.
        done = {
            each
            for each, end in ends.items()
            if positions.get(each, 0) >= end or (not polled and lag.get(each) == 0 and positions == before)
        }
        reader.pause(frozenset(done))
        for partition in done:
            del ends[partition]
        if polled or done or positions != before:
            moved_at, before = time.monotonic(), positions
        elif time.monotonic() - moved_at > stall_s:
            raise BrokerError(_stalled(ends, positions, stall_s))


def _stalled(ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int], stall_s: float) -> str:
    (topic, partition), end = next(iter(ends.items()))
    at = positions.get(TopicPartition(topic, partition), 0)
    return (
        f"{topic}:{partition} gives no record from offset {at} on, though it ends at {end}, for {stall_s:g} s: a "
        "transaction of another program may be open there; look at the broker's log"
    )
