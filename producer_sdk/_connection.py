"""What a started client holds of its broker."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from ._canceller import Canceller
from ._claims import Claims
from ._producer import Failed, Sender
from .broker import Admin, Broker, Producer
from .payload_settings import S3Settings
from .security import Security, TokenCallback, with_token
from .topics import Topics

if TYPE_CHECKING:
    from .kafka import KafkaOptions
    from .payloads import Payloads


MOST_FOR_CANCELS_S = 2.0  # they only save work: a broker that does not answer must not cost more
LEAST_STOP_S = 0.1  # for the producer, whatever the cancels took


class Connection(NamedTuple):
    producer: Producer
    admin: Admin
    sender: Sender
    canceller: Canceller

    async def start(self) -> None:
        """Connect. Raises BrokerError."""
        await self.admin.start()
        await self.producer.start()
        self.sender.start()

    async def close(self, timeout_s: float) -> None:
        """Flush cancels and requests within one budget, then disconnect; what fails leaves nothing behind it open."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.admin.stop)
            stack.push_async_callback(self.sender.close)
            stack.push_async_callback(self._stop_producer, ends_at)
            await self.canceller.close(min(timeout_s, MOST_FOR_CANCELS_S))

    async def _stop_producer(self, ends_at: float) -> None:
        await self.producer.stop(max(LEAST_STOP_S, ends_at - asyncio.get_running_loop().time()))


def new_connection(broker: Broker, topics: Topics, failed: Failed, claims: Claims) -> Connection:
    """A connection to be started; `failed` is told of requests whose publish was refused."""
    producer, admin = broker.producer(), broker.admin()
    sender = Sender(producer, admin, topics, failed, claims)
    return Connection(producer, admin, sender, Canceller(producer, admin, topics))


def broker_of(
    bootstrap_servers: str | Broker,
    client_id: str | None,
    options: KafkaOptions | None,
    security: Security | None = None,
    token: TokenCallback | None = None,
) -> Broker:
    """The broker for an address, or the one given. Raises ValueError for arguments that do not go together."""
    if not isinstance(bootstrap_servers, str):
        if any(each is not None for each in (client_id, options, security, token)):
            raise ValueError("client_id, options, security and token belong to an address: a broker object has its own")
        return bootstrap_servers
    from .kafka import KafkaBroker, KafkaOptions  # here, since importing aiokafka takes a quarter of a second

    chosen = KafkaOptions() if options is None else options
    if client_id is not None:
        chosen = dataclasses.replace(chosen, client_id=client_id)
    if token is not None:
        security = with_token(security or chosen.security, token)
    return KafkaBroker(bootstrap_servers, options=chosen, security=security)


def open_payloads(s3: S3Settings | Payloads | None) -> tuple[Payloads | None, Payloads | None]:
    """The store that a client closes itself, and the one that it uses. Raises Misconfigured: boto3 is missing."""
    if s3 is None or not isinstance(s3, S3Settings):
        return None, s3
    from .payloads import Payloads  # here, as it may need what is not installed

    own = Payloads(s3)
    return own, own
