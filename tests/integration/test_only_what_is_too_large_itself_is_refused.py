"""A topic that takes less than the client refuses whole batches: only requests too large for it alone are refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest
from broker_clients import Clients

from producer_sdk import Client, PayloadTooLarge
from producer_sdk.broker import Broker, Topic
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker
from producer_sdk.topics import Topics

COUNT, LARGE = 40, 5
ITEMS: list[dict[str, Array]] = [{"x": np.zeros(1000 if number == LARGE else 16)} for number in range(COUNT)]


@pytest.fixture
async def client(broker: Broker, prefix: str, clients: Clients) -> AsyncIterator[Client]:
    """Of a worker whose request topics take about six small requests at once."""
    lanes = [Topic(name, 1, config={"max.message.bytes": "2000"}) for name in Topics(prefix).lanes("double")]
    await (await clients.admin()).create_topics(lanes)
    async with (
        FakeWorker(broker, "double", lambda inputs: {"y": inputs["x"]}, prefix=prefix),
        Client(broker, prefix=prefix) as client,
    ):
        yield client


async def coming() -> AsyncIterator[dict[str, Array]]:
    for item in ITEMS:
        yield item


async def by_infer(client: Client) -> list[object]:
    return await asyncio.gather(*(client.infer("double", item) for item in ITEMS), return_exceptions=True)


async def by_map(client: Client) -> list[object]:
    return [outcome async for outcome in client.map("double", ITEMS, ordered=True)]


async def by_map_of_what_comes(client: Client) -> list[object]:
    return [outcome async for outcome in client.map("double", coming(), ordered=True)]


async def by_publish(client: Client) -> list[object]:
    return await asyncio.gather(*(client.publish("double", item) for item in ITEMS), return_exceptions=True)


@pytest.mark.parametrize("way", [by_publish, by_infer, by_map, by_map_of_what_comes])
async def test_each_has_its_own_outcome(client: Client, way: Callable[[Client], Awaitable[list[object]]]) -> None:
    outcomes = await way(client)
    wrong = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [type(outcome) for outcome in wrong] == [PayloadTooLarge], wrong
    assert outcomes.index(wrong[0]) == LARGE
