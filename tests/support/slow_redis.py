"""A Redis of a simulated world: it remembers nothing, and takes its time to say so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

ANSWERS_IN_S = 0.2


class SlowRedis:
    """What the reply index asks of a client."""

    async def mget(self, keys: Sequence[str]) -> list[None]:
        await asyncio.sleep(ANSWERS_IN_S)
        return [None] * len(keys)

    async def eval(self, *script: object) -> int:
        return 1
