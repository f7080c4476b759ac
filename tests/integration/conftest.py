"""The brokers on which every promise must hold."""

from collections.abc import AsyncIterator

import pytest
from broker_clients import Clients

from producer_sdk.broker import Broker
from producer_sdk.kafka import KafkaBroker
from producer_sdk.testing import MemoryBroker


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker in memory, then Apache Kafka."""
    if request.param == "memory":
        return MemoryBroker()
    return KafkaBroker(request.getfixturevalue("kafka").bootstrap_servers)


@pytest.fixture
async def clients(broker: Broker, prefix: str) -> AsyncIterator[Clients]:
    """Clients of the broker, which stop when the test ends."""
    async with Clients(broker, prefix) as clients:
        yield clients
