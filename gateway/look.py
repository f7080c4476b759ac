"""Whether the caller is still there while it is answered and nothing is read from it: reading would tell."""

from __future__ import annotations

import asyncio
from typing import Protocol

from .exchange import CONTINUE, Exchange
from .peer import has_ended, is_broken

LOOK_AT_SOCKET_S = 0.25


class Looked(Protocol):
    """The connection that is looked at."""

    transport: asyncio.Transport
    running: Exchange | None

    def is_answering(self) -> bool: ...
    def is_deaf(self) -> bool: ...


class Look:
    """Looks at the socket of one connection from time to time. Belongs to the event loop."""

    __slots__ = ("_connection", "_loop", "_timer", "_was_probed")

    def __init__(self, connection: Looked, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._was_probed = False

    def start(self, after_s: float = LOOK_AT_SOCKET_S) -> None:
        """Look until the answer is there, while nothing is read."""
        if self._timer is None:
            self._timer = self._loop.call_later(after_s, self._look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def probe(self) -> None:
        """Send a peer that has ended its side, once, what means nothing after a whole request.

        Only where it is refused is the peer gone. HTTP/1.0 has nothing of the kind.
        """
        running = self._connection.running
        if not self._was_probed and running is not None and running.head.http_version == "1.1":
            self._was_probed = True
            self._connection.transport.write(CONTINUE)

    def _look(self) -> None:
        self._timer = None
        transport = self._connection.transport
        if transport.is_closing() or not self._connection.is_answering():
            return
        if not (self._was_probed or self._connection.is_deaf()):
            return
        if is_broken(transport):
            transport.abort()
            return
        if has_ended(transport):
            self.probe()
        self.start()
