"""Waiting for an event for a bounded time, and for work that an event may end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Bell:
    """An event that one task listens to over and over: a wait costs a timer at most, and no context manager."""

    __slots__ = ("_listening", "_rung")

    def __init__(self) -> None:
        self._rung = False
        self._listening: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Ring: who listens, now or next, hears it until `clear`."""
        self._rung = True
        if self._listening is not None and not self._listening.done():
            self._listening.set_result(None)

    def clear(self) -> None:
        self._rung = False

    def is_set(self) -> bool:
        return self._rung

    async def heard(self, timeout_s: float = math.inf) -> bool:
        """Listen so long at most; whether it rang."""
        if self._rung:
            return True
        loop = asyncio.get_running_loop()
        self._listening = listening = loop.create_future()
        timer = loop.call_later(timeout_s, _end, listening) if timeout_s < math.inf else None
        try:
            await listening
        finally:
            self._listening = None
            if timer is not None:
                timer.cancel()
        return self._rung


def _end(listening: asyncio.Future[None]) -> None:
    if not listening.done():
        listening.set_result(None)


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
