"""The client for programs without an event loop: the same verbs, blocking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from ._call import Inputs
from ._pending import Outcome
from ._replies import Counters
from .client import Client as AsyncClient
from .errors import Cancelled, HeadraceError
from .wire import Reply, Scalar

T = TypeVar("T")
THREAD_END_S = 30.0


class Client:
    """`producer_sdk.Client` without await: same arguments, same errors. Any thread may use it, many at once.

        with Client("localhost:9092") as client:
            reply = client.infer("resnet", {"image": image})

    It runs one event loop in one thread, from `start` to `close`.
    """

    def __init__(self, bootstrap_servers: Any, **arguments: Any) -> None:
        self._arguments = (bootstrap_servers, arguments)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncClient | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def counters(self) -> Counters:
        """What the client has seen of replies, as of now."""
        return self._open()[1].counters

    def start(self) -> None:
        """Connect; raises as `producer_sdk.Client` and its `start` do."""
        if self._thread is not None:
            raise RuntimeError("a Client is started once: make another one")
        started: Future[None] = Future()
        # A daemon, so that a program that forgot close() still ends.
        self._thread = threading.Thread(target=self._run, args=(started,), name="headrace-client", daemon=True)
        self._thread.start()
        started.result()

    def close(self) -> None:
        """End what waits with Cancelled, flush, disconnect and end the thread. May be called again."""
        loop, stop, thread = self._loop, self._stop, self._thread
        self._loop = None
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
        if thread is not None:
            thread.join(THREAD_END_S)

    def infer(self, model: str, inputs: Inputs, **arguments: Any) -> Reply:
        """See `producer_sdk.Client.infer`."""
        return self._call(self._open()[1].infer(model, inputs, **arguments))

    def publish(self, model: str, inputs: Inputs, **arguments: Any) -> str:
        """See `producer_sdk.Client.publish`."""
        return self._call(self._open()[1].publish(model, inputs, **arguments))
