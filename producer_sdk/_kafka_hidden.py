"""Topics that Kafka hides: of one that a client may not see it says that there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from ._kafka_admin import KafkaAdmin
from ._kafka_options import KafkaOptions
from .broker import BrokerError
from .rights import Operation, Resource, Right


@asynccontextmanager
async def asking(bootstrap_servers: str, options: KafkaOptions) -> AsyncIterator[KafkaAdmin]:
    """A client on aiokafka for a few questions. Raises BrokerError without a connection."""
    admin = KafkaAdmin(bootstrap_servers, options)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.stop()


async def or_hidden(
    err: BrokerError, bootstrap_servers: str, options: KafkaOptions, operation: Operation, topics: Iterable[str]
) -> BrokerError:
    """The error that says that topics are missing; or, where they are hidden, one that says which right is.

    Without TLS and SASL nobody asks: then everybody is the same to Kafka, and nobody sees less than others.
    """
    if options.security.protocol == "PLAINTEXT":
        return err
    rights = [Right(operation, Resource.TOPIC, topic) for topic in topics]
    try:
        async with asking(bootstrap_servers, options) as admin:
            return await admin.missing(rights) or err
    except BrokerError:
        return err
