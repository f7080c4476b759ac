"""A client from its making to its end: what it holds, and when it is connected."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ._claims import Claims
from ._connection import Connection, broker_of, new_connection, open_payloads
from ._replies import Counters, Replies
from .broker import Broker, BrokerError
from .errors import Cancelled, InvalidRequest
from .forms import form_named
from .security import Security, TokenCallback
from .stored_replies import StoredReplies
from .topics import Topics

if TYPE_CHECKING:
    from .kafka import KafkaOptions
    from .payload_settings import S3Settings
    from .payloads import Payloads

CLOSE_TIMEOUT_S = 10.0


class Lifecycle:
    """What `Client` is made of; its arguments are explained there."""

    def __init__(
        self,
        bootstrap_servers: str | Broker,
        *,
        encoding: str = "msgpack",
        prefix: str = "headrace",
        client_id: str | None = None,
        options: KafkaOptions | None = None,
        security: Security | None = None,
        token: TokenCallback | None = None,
        reply_partition: int | None = None,
        max_pending: int = 10_000,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        s3: S3Settings | Payloads | None = None,
    ) -> None:
        try:
            form_named(encoding)
        except InvalidRequest as err:
            raise ValueError(f"encoding {err.message}") from err
        if max_pending < 1:
            raise ValueError(f"max_pending {max_pending} is not valid: give at least 1")
        self._topics = Topics(prefix)
        self._broker = broker_of(bootstrap_servers, client_id, options, security, token)
        self._encoding = encoding
        self._max_pending = max_pending
        self._close_timeout_s = close_timeout_s
        self._own_payloads, payloads = open_payloads(s3)
        self._claims = Claims(payloads)
        self._stored = StoredReplies(payloads)
        self._replies = Replies(self._broker, self._topics, reply_partition, max_pending, self._stored)
        self._connection: Connection | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def counters(self) -> Counters:
        """What the client has seen of replies, as of now."""
        return self._replies.counters

    async def start(self) -> None:
        """Connect. Replies are read from the first `infer` or `map` on.

        Raises:
            BrokerError: the broker did not answer.
        """
        if self._connection is not None or self._closed:
            raise RuntimeError("a Client is started once: make another one")
        self._connection = new_connection(self._broker, self._topics, self._replies.settle, self._claims)
        try:
            await self._connection.start()
        except BaseException:
            await self.close()
            raise

    async def listen(self) -> None:
        """Begin to read replies now, so that the first request need not wait for it.

        Raises:
            BrokerError: the broker did not answer, or a topic could not be created.
        """
        await self._replies.start(self._open().admin)

    @property
    def deaf(self) -> BrokerError | None:
        """Why replies cannot be read at the moment; None while all is well."""
        return self._replies.failed

    async def close(self) -> None:
        """Cancel what waits, flush what was published, disconnect. May be called again."""
        connection, self._connection = self._connection, None
        self._closed = True
        if connection is None:
            return
        connection.canceller.send_soon(self._replies.waiting())
        async with AsyncExitStack() as stack:  # what fails here, or is cancelled, leaves nothing behind it open
            if self._own_payloads is not None:
                stack.push_async_callback(self._own_payloads.close)
            stack.push_async_callback(connection.close, self._close_timeout_s)
            await self._replies.close()

    def _open(self) -> Connection:
        if self._closed:
            raise Cancelled("the client is closed")
        if self._connection is None:
            raise RuntimeError("the client is not started: use `async with`, or await start() first")
        return self._connection
