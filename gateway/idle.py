"""The end of a connection on which nothing is asked for too long."""

from __future__ import annotations

import asyncio


class Idle:
    """Closes a transport in time. One timer runs on over many requests: each costs. Belongs to the event loop."""

    __slots__ = ("_loop", "_most_s", "_since_s", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, most_s: float) -> None:
        self._transport = transport
        self._loop = loop
        self._most_s = most_s
        self._since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._since_s = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._most_s, self._look)

    def end(self) -> None:
        """Something is asked."""
        self._since_s = None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._since_s is None or self._transport.is_closing():
            return
        left_s = self._since_s + self._most_s - self._loop.time()
        if left_s <= 0:
            self._transport.close()
        else:
            self._timer = self._loop.call_later(left_s, self._look)
