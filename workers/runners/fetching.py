"""A runner of a model whose files are kept in S3: they are laid out first, and then another runner loads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from ..artifact_cache import LoadFolder
from ..work import Answer, Batch
from .engine import Loaded, ModelSpec
from .placing import Padded
from .runner import Runner, RunnerDied

LayOut = Callable[[ModelSpec], Awaitable[LoadFolder]]


class FetchingRunner:
    """The Runner that fetches first. One event loop's thread uses it."""

    def __init__(self, spec: ModelSpec, lay_out: LayOut, make: Callable[[ModelSpec], Runner]) -> None:
        self.slots = make(replace(spec, artifacts=())).slots
        self._spec = spec
        self._lay_out = lay_out
        self._make = make
        self._folder: LoadFolder | None = None
        self._inner: Runner | None = None

    async def start(self) -> Loaded:
        """See Runner."""
        self._folder = await self._lay_out(self._spec)
        self._inner = self._make(replace(self._spec, folder=self._folder.path, artifacts=()))
        return await self._inner.start()

    def place(self, slot: int, batch: Batch) -> Padded | None:
        """See Runner."""
        return self._started.place(slot, batch)

    def run(self, slot: int, first: int, last: int) -> Coroutine[Any, Any, Answer]:
        """See Runner."""
        return self._started.run(slot, first, last)

    def died(self) -> Coroutine[Any, Any, str]:
        """See Runner."""
        return self._started.died()

    async def stop(self, timeout_s: float = 5.0) -> None:
        """See Runner. Whoever waits for the start has to be cancelled before."""
        try:
            if self._inner is not None:
                await self._inner.stop(timeout_s)
        finally:
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.remove()

    @property
    def _started(self) -> Runner:
        if self._inner is None:
            raise RunnerDied("its files are not there", started=False)
        return self._inner
