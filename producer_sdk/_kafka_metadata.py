"""What aiokafka knows of the cluster, asked for anew."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka.errors import KafkaError

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


async def all_metadata(client: Any) -> Any:
    """All topics with their partitions and leaders, as aiokafka's ClusterMetadata; the caller bounds the time.

    aiokafka gives up where a connection turns out to be stale, as all do after a broker was away, and where the broker
    knows of none yet that may serve: so does one for some seconds after it was frozen.

    Raises:
        KafkaError: what a broker told.
    """
    while True:
        try:
            return await client.fetch_all_metadata()
        except KafkaError as err:
            if type(err) is not KafkaError:  # the bare class is its word for that no broker told
                raise
        await asyncio.sleep(_PAUSE_S)
