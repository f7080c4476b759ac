"""A run of `Client.map`: pull, send and yield with at most a window of requests between pulling and yielding.

Requests that wait for their outcome are bounded in bytes too: a window of large ones must not fill the memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from typing import NamedTuple

import msgspec

from ._call import Inputs
from ._claims import Sending
from ._pending import Outcome, Waiter
from .cancels import Cancel
from .errors import HeadraceError, InvalidRequest
from .wire import Reply

Source = Iterable[Inputs] | AsyncIterable[Inputs]
DEFAULT_WINDOW = 256  # measured: 64 leaves workers idle between two batches, 1024 gains a little more
MAX_BYTES_OUT = 64 << 20
MAX_TOGETHER = 64


def check_window(window: int | None, max_pending: int) -> int:
    """The window to use.

    Raises:
        InvalidRequest: it is not from 1 to `max_pending`.
    """
    if window is None:
        return min(DEFAULT_WINDOW, max_pending)
    if not 1 <= window <= max_pending:
        raise InvalidRequest(f"window {window} is not valid: give 1 to max_pending, which is {max_pending}")
    return window


class _Out(NamedTuple):
    """A request without an outcome yet."""

    id: str
    nbytes: int
    at_ms: int


class Steps(NamedTuple):
    """What a window does with its requests.

    Attributes:
        check: raises when nothing more can be sent.
        prepare: encodes a request and waits for its reply.
        send_alone, send_together: hand over one or some.
        forget: waits no longer for one.
        give_up: has requests cancelled in the background.
    """

    check: Callable[[], object]
    prepare: Callable[[Inputs, Waiter], Sending]
    send_alone: Callable[[Sending], Awaitable[None]]
    send_together: Callable[[Sequence[Sending]], None]
    forget: Callable[[str], object]
    give_up: Callable[[Sequence[Cancel]], None]


class _Item:
    """Waits for the outcome of one place of the iterable."""

    __slots__ = ("_index", "_window")

    def __init__(self, window: Window, index: int) -> None:
        self._window = window
        self._index = index

    def settle(self, outcome: Outcome) -> None:
        self._window.settle(self._index, outcome)


class Window:
    """One run; its items are pulled by a task of its own, so that replies are yielded while the iterable waits."""

    def __init__(self, size: int, *, ordered: bool) -> None:
        self._size = size
        self._ordered = ordered
        # Requests sent together share a partition: parts of the window must reach several workers.
        self._together = min(max(1, size // 8), MAX_TOGETHER)
        self._pulled = 0
        self._yielded = 0
        self._out: dict[int, _Out] = {}
        self._bytes_out = 0
        self._ready: deque[Outcome] = deque()
        self._held: dict[int, Outcome] = {}  # ordered: outcomes whose predecessors are still out
        self._next = 0
        self._exhausted = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self, source: Source, open_steps: Callable[[], Awaitable[Steps]]) -> AsyncGenerator[Outcome, None]:
        """The outcomes; the iterable's own exception comes after the outcomes of what it gave before."""
        steps = await open_steps()
        if isinstance(source, AsyncIterable):
            pull = self._pull_async(aiter(source), steps)
        else:
            pull = self._pull(iter(source), steps)
        puller = asyncio.create_task(pull, name="headrace-map")
        puller.add_done_callback(self._end)
        try:
            while True:
                while self._ready:
                    outcome = self._ready.popleft()
                    self._yielded += 1
                    self._room.set()
                    yield outcome
                if self._exhausted and self._yielded == self._pulled:
                    break
                self._arrived.clear()
                await self._arrived.wait()
            puller.result()
        finally:
            puller.cancel()
            for out in self._out.values():
                steps.forget(out.id)
            if self._out:
                steps.give_up([Cancel(out.id, out.at_ms) for out in self._out.values()])
            await asyncio.gather(puller, return_exceptions=True)

    def settle(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of the item at a place; the sweeper, the reader and the sender call it."""
        out = self._out.pop(index, None)
        if out is not None:
            self._bytes_out -= out.nbytes
            self._room.set()
        if type(outcome) is Reply:
            msgspec.structs.force_setattr(outcome, "index", index)  # ours alone: fresh from the decoder
        elif isinstance(outcome, HeadraceError):
            outcome.index = index
        if not self._ordered:
            self._ready.append(outcome)
        else:
            self._held[index] = outcome
            while self._next in self._held:
                self._ready.append(self._held.pop(self._next))
                self._next += 1
        self._arrived.set()

    async def _pull(self, source: Iterator[Inputs], steps: Steps) -> None:
        while True:
            room = await self._wait_for_room(steps)
            sendings: list[Sending] = []
            try:
                for _ in range(min(room, self._together)):
                    if self._bytes_out >= MAX_BYTES_OUT:
                        break
                    self._prepare(next(source), steps, sendings)
            except StopIteration:
                return
            finally:
                if sendings:
                    steps.send_together(sendings)
            await asyncio.sleep(0)  # what was encoded goes out while the next part is encoded

    async def _pull_async(self, source: AsyncIterator[Inputs], steps: Steps) -> None:
        while True:
            await self._wait_for_room(steps)
            try:
                inputs = await anext(source)
            except StopAsyncIteration:
                return
            sendings: list[Sending] = []
            self._prepare(inputs, steps, sendings)
            for sending in sendings:
                if sending.claim is None:
                    await steps.send_alone(sending)
                else:
                    steps.send_together(sendings)  # storing takes a while, for which the next need not wait

    async def _wait_for_room(self, steps: Steps) -> int:
        while self._pulled - self._yielded >= self._size or self._bytes_out >= MAX_BYTES_OUT:
            self._room.clear()
            await self._room.wait()
        steps.check()
        return self._size - (self._pulled - self._yielded)

    def _prepare(self, inputs: Inputs, steps: Steps, sendings: list[Sending]) -> None:
        index = self._pulled
        self._pulled += 1
        try:
            sending = steps.prepare(inputs, _Item(self, index))
        except HeadraceError as err:
            self.settle(index, err)
        else:
            nbytes = len(sending.record.value or b"")
            self._out[index] = _Out(sending.id, nbytes, sending.record.timestamp_ms or 0)
            self._bytes_out += nbytes
            sendings.append(sending)

    def _end(self, _: asyncio.Task[None]) -> None:
        self._exhausted = True
        self._arrived.set()
