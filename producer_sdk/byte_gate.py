"""How many bytes (or whatever is counted) may be on their way at a time. Pure but for the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

_Waiting = tuple[int, int, int, int, asyncio.Future[None]]


class ByteGate:
    """Lets in as many bytes as `most`, the lowest rank first and then who came first; what is larger goes in alone.

    One event loop touches it.

    Attributes:
        most: bytes at a time.
        inside: bytes now; what is larger than `most` counts as that.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0
        self._waiting: list[_Waiting] = []
        self._order = count()

    @asynccontextmanager
    async def room_for(self, nbytes: int, rank: int = 0, keep: int = 0) -> AsyncIterator[None]:
        """Wait for room, and hold it. Who is not alone leaves `keep` bytes free, for lower ranks."""
        nbytes = min(nbytes, self.most)
        await self._enter(nbytes, rank, keep)
        try:
            yield
        finally:
            self.inside -= nbytes
            self._let_in()

    async def _enter(self, nbytes: int, rank: int, keep: int) -> None:
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._order), nbytes, keep, let_in))
        self._let_in()
        try:
            await let_in
        except asyncio.CancelledError:
            if let_in.done() and not let_in.cancelled():  # let in, and cancelled before it could go in
                self.inside -= nbytes
            let_in.cancel()
            self._let_in()
            raise

    def _let_in(self) -> None:
        """Those at the head that fit: a large one is not passed by small ones for ever."""
        while self._waiting:
            _, _, nbytes, keep, let_in = self._waiting[0]
            if let_in.cancelled():
                heappop(self._waiting)
                continue
            if self.inside and self.inside + nbytes + keep > self.most:
                return
            heappop(self._waiting)
            self.inside += nbytes
            let_in.set_result(None)
