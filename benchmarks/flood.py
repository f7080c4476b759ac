"""A tenant that publishes at a rate, whatever becomes of it: no reply is read, only the broker can hold it up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count

import numpy as np

from benchmarks.cluster import REQUEST_PARTITIONS
from producer_sdk.broker import Outgoing, Producer
from producer_sdk.kafka import KafkaBroker
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request, encode_request

TICK_S = 0.02  # record batches cost the machine, which the others share, far less than single records


class Flood:
    """What was published so far.

    Attributes:
        published: requests that the broker has acknowledged.
    """

    def __init__(self, topic: str, tenant: str, rate: float) -> None:
        self.published = 0
        self._topic, self._tenant, self._rate = topic, tenant, rate
        self._inputs = {"x": Tensor.from_array(np.zeros((1, 2), np.float32))}
        self._numbers = count()

    async def run(self, producer: Producer) -> None:
        """Publish until cancelled; what could not go out in its time goes out with the next."""
        began, asked = time.perf_counter(), 0
        for tick in count(1):
            await asyncio.sleep(max(0.0, began + tick * TICK_S - time.perf_counter()))
            due = int((time.perf_counter() - began) * self._rate)
            records = list(self._records(due - asked))
            asked = due
            if records:
                await producer.publish_batch(self._topic, tick % REQUEST_PARTITIONS, records)
                self.published += len(records)

    def _records(self, number: int) -> Iterator[Outgoing]:
        for _ in range(number):
            id = f"{self._tenant}-{next(self._numbers)}"
            yield Outgoing(id.encode(), encode_request(Request(id, self._inputs, tenant=self._tenant)))


@asynccontextmanager
async def open_flood(servers: str, prefix: str, model: str, tenant: str, rate: float) -> AsyncIterator[Flood]:
    """So many requests a second of one tenant, in the interactive lane, until the end."""
    flood = Flood(Topics(prefix).requests(model, Lane.INTERACTIVE), tenant, rate)
    producer = KafkaBroker(servers).producer()
    await producer.start()
    task = asyncio.create_task(flood.run(producer), name="flood")
    try:
        yield flood
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await producer.stop()
