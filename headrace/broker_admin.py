"""An admin client for the length of a block."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from producer_sdk.broker import Admin, Broker


@asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[Admin]:
    """A started admin client, stopped at the end. Raises BrokerError: Kafka does not answer."""
    admin = broker.admin()
    try:
        await admin.start()
        yield admin
    finally:
        await admin.stop()
