"""Ends the connections of an aiokafka client: all of them, and those by TLS in time.

aiokafka loses two kinds of connection, which then stay open until the process ends: the one that a start asks for the
brokers when that start is given up, and one that is made while the client closes.

On uvloop a TLS connection that waits for an answer closes only after 30 seconds: the broker does not read the goodbye
while it works on the request, a fetch say, and what it answers then is nothing that a closing connection expects.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from aiokafka.conn import AIOKafkaConnection

from .security import Security

GRACE_S = 0.1


def close_wholly(client: Any, security: Security) -> None:
    """Have `client.close`, which aiokafka's own stops end with, leave no connection; do so before it starts."""
    _lose_none_at_start(client)
    _connect_no_more_once_closed(client)
    if security.uses_tls:
        _close_in_time(client)


def _lose_none_at_start(client: Any) -> None:
    bootstrap = client.bootstrap

    async def bootstrapping() -> None:
        try:
            await bootstrap()
        except BaseException as err:
            # Nothing but the frame that was left knows the connection.
            for frame, _ in traceback.walk_tb(err.__traceback__):
                for held in frame.f_locals.values():
                    if isinstance(held, AIOKafkaConnection):
                        held.close()
            raise

    client.bootstrap = bootstrapping


def _connect_no_more_once_closed(client: Any) -> None:
    connect, close = client._get_conn, client.close
    closed = False

    async def get_conn(*arguments: Any, **options: Any) -> Any:
        conn = None if closed else await connect(*arguments, **options)
        if conn is None or not closed:
            return conn
        conn.close()
        return None

    async def closing() -> None:
        nonlocal closed
        closed = True
        await close()

    client._get_conn, client.close = get_conn, closing


def _close_in_time(client: Any) -> None:
    close = client.close

    async def closing() -> None:
        loop = asyncio.get_running_loop()
        cuts = [loop.call_later(GRACE_S, transport.abort) for transport in map(transport_of, client._conns.values())
                if transport is not None]  # fmt: skip
        try:
            await close()
        finally:
            for cut in cuts:
                cut.cancel()

    client.close = closing


def transport_of(connection: Any) -> Any:
    """The transport of an open connection of aiokafka, else None."""
    return None if connection._writer is None else connection._writer.transport
