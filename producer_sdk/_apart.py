"""Requests that were refused for others with or before them are sent apart, until each has its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence

from ._claims import Sending
from ._route import Route
from .broker import OutOfTurn
from .errors import HeadraceError, PayloadTooLarge

Publish = Callable[[Route, Sequence[Sending]], Awaitable[None]]


class Apart:
    """Sends halves, and halves of those that are refused; of one route one after the other. Belongs to its event loop.

    Handed over at once, they would gather in one batch again, and behind a batch that Kafka refuses it refuses the
    next. What arrives twice is answered once.
    """

    def __init__(
        self,
        publish: Publish,
        tell: Callable[[str, HeadraceError], None],
        spawn: Callable[[Coroutine[None, None, None], str], None],
    ) -> None:
        """`publish` sends requests in a batch of their own until acknowledged, `tell` is told each final refusal."""
        self._publish = publish
        self._tell = tell
        self._spawn = spawn
        self._waiting: dict[Route, list[Sending]] = {}

    def send(self, route: Route, sendings: Sequence[Sending]) -> None:
        """Have requests sent whose batch was too large, or refused behind such a one."""
        waiting = self._waiting.get(route)
        if waiting is not None:
            waiting.extend(sendings)
            return
        self._waiting[route] = list(sendings)
        self._spawn(self._send_all(route), "headrace-send-apart")

    async def publish(self, route: Route, sendings: Sequence[Sending]) -> None:
        """Publish requests in a batch of their own, those before them being acknowledged. Raises as publishing does."""
        async with route.apart:
            try:
                await self._publish(route, sendings)
            except OutOfTurn:  # behind what was handed over meanwhile
                await self._publish(route, sendings)

    async def _send_all(self, route: Route) -> None:
        waiting = self._waiting[route]
        try:
            while waiting:
                groups = _halves(waiting)
                waiting.clear()
                while groups:
                    groups += await self._try(route, groups.pop())
        finally:
            del self._waiting[route]

    async def _try(self, route: Route, group: Sequence[Sending]) -> list[Sequence[Sending]]:
        """What of it is still to be sent."""
        try:
            await self.publish(route, group)
        except PayloadTooLarge as err:
            if len(group) > 1:
                return _halves(group)
            self._tell(group[0].id, err)
        except HeadraceError as err:
            for sending in group:
                self._tell(sending.id, err)
        return []


def _halves(sendings: Sequence[Sending]) -> list[Sequence[Sending]]:
    """The first half comes last: it is taken first."""
    half = len(sendings) // 2
    return [part for part in (sendings[half:], sendings[:half]) if part]
