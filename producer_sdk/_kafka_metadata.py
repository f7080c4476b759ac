"""What aiokafka knows of the cluster, asked for anew."""

from __future__ import annotations

import asyncio
from typing import Any

_PAUSE_S = 0.1


async def renew_metadata(client: Any) -> None:
    """Have the client learn all topics; the caller bounds the time.

    aiokafka says False, and keeps what it knew, where no broker tells them: while a cluster comes back, say, which
    first answers without any broker. Taken for an answer that would make every topic one that does not exist.
    """
    while True:
        if await client.force_metadata_update():
            return
        await asyncio.sleep(_PAUSE_S)
