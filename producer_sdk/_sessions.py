"""The sessions of a producer, one after the other: one that broke is retired while the next already sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from .broker import BrokerError


class AnySession(Protocol):
    """One client of the broker, from its start to its end.

    Attributes:
        broken: what it holds is unknown, or it sends nothing more: use another.
    """

    broken: bool

    async def open(self) -> None:
        """Connect. Raises BrokerError."""

    async def close(self, timeout_s: float) -> None:
        """Flush and close, in little more than the time."""


S = TypeVar("S", bound=AnySession)


class Sessions(Generic[S]):
    """One event loop; any task."""

    def __init__(self, make: Callable[[], S], retire_s: float) -> None:
        """`retire_s`: how long a session that broke may still flush."""
        self._make = make
        self._retire_s = retire_s
        self._session: S | None = None
        self._opening: asyncio.Task[S] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def usable(self) -> S | None:
        """The session to use now; None: `renewed` has to be awaited."""
        session = self._session
        return None if session is None or session.broken else session

    async def renewed(self) -> S:
        """The session to use from now on; all who ask share one attempt to open it. Raises BrokerError."""
        if self._stopped:
            raise BrokerError("the producer is stopped")
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="kafka-producer-open")
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def stop(self, timeout_s: float, grace_s: float) -> None:
        """Close all; past the time a session ends itself, which takes it `grace_s` at most."""
        self._stopped = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening}, timeout=timeout_s)
        self._retire(timeout_s)
        if self._retiring:
            await asyncio.wait(self._retiring, timeout=timeout_s + grace_s)

    async def _open(self) -> S:
        self._retire(self._retire_s)
        session = self._make()
        await session.open()
        self._session = session
        return session

    def _opened(self, opening: asyncio.Task[S]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # those who waited for it got it

    def _retire(self, timeout_s: float) -> None:
        session, self._session = self._session, None
        if session is not None:
            task = asyncio.create_task(session.close(timeout_s), name="kafka-producer-retire")
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
