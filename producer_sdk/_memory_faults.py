"""What goes wrong on purpose with the broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from .broker import BrokerError
from .errors import HeadraceError

Fault = tuple[HeadraceError, bool]
"""What is raised, and whether that which was asked for is done all the same."""


class Gate:
    """While it is closed things wait; when it opens they go on, in order. One event loop; any task."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] | None = None  # None while it is open

    @property
    def closed(self) -> bool:
        return self._waiting is not None

    def close(self) -> None:
        if self._waiting is None:
            self._waiting = []

    def open(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for go in waiting:
            go()

    def through(self, go: Callable[[], None]) -> None:
        """Call it now, or when the gate opens."""
        if self._waiting is None:
            go()
        else:
            self._waiting.append(go)

    async def opened(self) -> None:
        """Wait for as long as it is closed."""
        while self.closed:
            opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.through(partial(_finish, opened))
            await opened

    async def opened_within(self, timeout_s: float, otherwise: str) -> None:
        """Wait until it is open. Raises BrokerError with the sentence `otherwise` when that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.opened()
        except TimeoutError as err:
            raise BrokerError(otherwise) from err


class Faults:
    """Shared by all clients of a broker.

    Attributes:
        network: closed while the broker cannot be reached.
        acknowledgements: closed while published records arrive without being acknowledged.
        commits: closed while commits arrive without being answered.
        failing: topic -> what publishing to it raises.
        failing_commits: what commits raise.
    """

    def __init__(self, send_timeout_s: float, commit_timeout_s: float) -> None:
        self.send_timeout_s = send_timeout_s
        self.commit_timeout_s = commit_timeout_s
        self.network = Gate()
        self.acknowledgements = Gate()
        self.commits = Gate()
        self.failing: dict[str, Fault] = {}
        self.failing_commits: Fault | None = None

    async def reach(self, what: str) -> None:
        """Wait until the broker can be reached. Raises BrokerError that says what it could not do."""
        await self.network.opened_within(
            self.send_timeout_s, f"the broker in memory could not {what}: no answer within {self.send_timeout_s:g} s"
        )


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
