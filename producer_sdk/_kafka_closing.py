"""Ends the TLS connections of an aiokafka client in time.

On uvloop a connection that waits for an answer closes only after 30 seconds: the broker does not read the goodbye while
it works on the request, a fetch say, and what it answers then is nothing that a closing connection expects.
"""

from __future__ import annotations

import asyncio
from typing import Any

GRACE_S = 0.1


def close_in_time(client: Any) -> None:
    """Have `client.close`, which aiokafka's own stops end with, cut off what does not close at once."""
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
