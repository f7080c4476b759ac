"""`map` across two threads: the caller's thread pulls and yields, the loop's thread sends and receives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Self

from ._call import Inputs
from ._pending import Outcome
from .errors import Cancelled

MAX_UNSENT = 64

Submit = Callable[[Coroutine[None, None, None]], "Future[None]"]


class Feed:
    """An asynchronous iterable that another thread fills."""

    def __init__(self) -> None:
        self._items: deque[Inputs] = deque()
        self._more = asyncio.Event()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def has_room(self) -> bool:
        """Whether few enough items wait to be sent: the window takes no more while its bytes are used up."""
        return len(self._items) < MAX_UNSENT

    def put(self, inputs: Inputs) -> None:
        """Another thread's; the item is sent as soon as the window has room."""
        self._items.append(inputs)
        self._wake()

    def end(self) -> None:
        """Another thread's: nothing more comes."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._more.set)
        except RuntimeError:
            return  # the client was closed meanwhile, which the next outcome says

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Inputs:
        self._loop = asyncio.get_running_loop()
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            self._more.clear()
            if not self._items and not self._ended:  # put() may have come before clear()
                await self._more.wait()
        return self._items.popleft()


class SyncMap:
    """One run of the blocking `map`; at most `window` items are between pulling and yielding."""

    def __init__(self, outcomes: AsyncGenerator[Outcome, None], feed: Feed, window: int) -> None:
        self._outcomes = outcomes
        self._feed = feed
        self._window = window
        self._out = 0
        self._arrived: SimpleQueue[Outcome | None] = SimpleQueue()  # bounded by the window; None is the end

    def run(self, iterable: Iterable[Inputs], submit: Submit) -> Generator[Outcome, None, None]:
        """The outcomes; the iterable's own exception comes after the outcomes of what it gave before."""
        collecting = submit(self._collect())
        source = iter(iterable)
        try:
            while True:
                while self._out < self._window and self._feed.has_room and self._arrived.empty():
                    try:
                        inputs = next(source)
                    except StopIteration:
                        yield from self._rest(collecting)
                        return
                    except Exception:
                        yield from self._rest(collecting)
                        raise
                    self._feed.put(inputs)
                    self._out += 1
                yield self._take(collecting)
        finally:
            collecting.cancel()

    def _rest(self, collecting: Future[None]) -> Generator[Outcome, None, None]:
        self._feed.end()
        while self._out:
            yield self._take(collecting)

    def _take(self, collecting: Future[None]) -> Outcome:
        outcome = self._arrived.get()
        if outcome is None:
            try:
                collecting.result()
            except CancelledError:
                pass
            raise Cancelled("the client was closed")
        self._out -= 1
        return outcome

    async def _collect(self) -> None:
        try:
            async for outcome in self._outcomes:
                self._arrived.put(outcome)
        finally:
            await self._outcomes.aclose()
            self._arrived.put(None)
