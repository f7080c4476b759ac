"""Waiting for an event for a bounded time, and for work that an event may end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def heard(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event so long at most; whether it came. Costs no task."""
    try:
        async with asyncio.timeout(timeout_s if timeout_s < math.inf else None):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """What the work gives; None when the event comes first, which cancels the work."""
    working = asyncio.create_task(work)
    told = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([working, told], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        told.cancel()
        await asyncio.wait([working, told])
