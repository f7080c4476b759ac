"""Where requests go: each partition of a topic in turn."""

from __future__ import annotations

import asyncio
import random


class Route:
    """Where requests for one lane of a model go: each partition in turn, from a random one on.

    Attributes:
        partition: whose turn it is; whoever sent something there calls `advance`.
        apart: held while what was too large with others is sent alone.
    """

    __slots__ = ("_partitions", "apart", "lane", "model", "partition", "topic")

    def __init__(self, topic: str, partitions: int, model: str, lane: str) -> None:
        self.topic = topic
        self.model = model
        self.lane = lane
        self.apart = asyncio.Lock()
        self._partitions = 0
        self.resize(partitions)

    def resize(self, partitions: int) -> None:
        if partitions != self._partitions:
            self._partitions = partitions
            self.partition = random.randrange(partitions)

    def advance(self) -> None:
        self.partition = (self.partition + 1) % self._partitions

    def next_partition(self) -> int:
        partition = self.partition
        self.advance()
        return partition
