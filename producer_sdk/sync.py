"""The client for programs without an event loop: the same verbs, blocking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ._call import Inputs
from ._pending import Outcome
from ._replies import Counters
from ._sync_map import Feed, SyncMap
from ._window import check_window
from .broker import Broker
from .client import CLOSE_TIMEOUT_S
from .client import Client as AsyncClient
from .errors import Cancelled
from .security import Security, TokenCallback
from .wire import Reply, Scalar

if TYPE_CHECKING:
    from .kafka import KafkaOptions
    from .payload_settings import S3Settings
    from .payloads import Payloads

T = TypeVar("T")


class Client:
    """`producer_sdk.Client` without await: same arguments, same errors. Any thread may use it, many at once.

        with Client("localhost:9092") as client:
            reply = client.infer("resnet", {"image": image})

    It runs one event loop in one thread, from `start` to `close`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Broker,
        *,
        encoding: str = "msgpack",
        prefix: str = "headrace",
        client_id: str | None = None,
        options: KafkaOptions | None = None,
        security: Security | None = None,
        token: TokenCallback | None = None,
        reply_partition: int | None = None,
        max_pending: int = 10_000,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        s3: S3Settings | Payloads | None = None,
    ) -> None:
        self._client = AsyncClient(
            bootstrap_servers,
            encoding=encoding,
            prefix=prefix,
            client_id=client_id,
            options=options,
            security=security,
            token=token,
            reply_partition=reply_partition,
            max_pending=max_pending,
            close_timeout_s=close_timeout_s,
            s3=s3,
        )
        self._max_pending = max_pending
        self._lock = threading.Lock()  # what is handed to the loop before close() is handed to a loop that still runs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
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
        return self._client.counters

    def start(self) -> None:
        """Connect; raises as `producer_sdk.Client.start` does."""
        if self._thread is not None:
            raise RuntimeError("a Client is started once: make another one")
        ready: Future[asyncio.AbstractEventLoop] = Future()
        # A daemon, so that a program that forgot close() still ends.
        self._thread = threading.Thread(target=self._run, args=(ready,), name="headrace-client", daemon=True)
        self._thread.start()
        self._loop = ready.result()
        try:
            self._wait_for(self._client.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End what waits with Cancelled, flush, disconnect and end the thread. May be called again."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        id: str | None = None,
        version: str | None = None,
        lane: str = "interactive",
        deadline_s: float = 30.0,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Reply:
        """See `producer_sdk.Client.infer`."""
        return self._wait_for(
            self._client.infer(
                model,
                inputs,
                id=id,
                version=version,
                lane=lane,
                deadline_s=deadline_s,
                tenant=tenant,
                parameters=parameters,
                outputs=outputs,
            )
        )

    def publish(
        self,
        model: str,
        inputs: Inputs,
        *,
        reply_to: str | None = None,
        id: str | None = None,
        version: str | None = None,
        lane: str = "async",
        deadline_s: float | None = None,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> str:
        """See `producer_sdk.Client.publish`."""
        return self._wait_for(
            self._client.publish(
                model,
                inputs,
                reply_to=reply_to,
                id=id,
                version=version,
                lane=lane,
                deadline_s=deadline_s,
                tenant=tenant,
                parameters=parameters,
                outputs=outputs,
            )
        )

    def cancel(self, id: str) -> None:
        """See `producer_sdk.Client.cancel`."""
        self._wait_for(self._client.cancel(id))

    def resolve(self, reply: Reply, *, timeout_s: float = 60.0) -> Reply:
        """See `producer_sdk.Client.resolve`."""
        return self._wait_for(self._client.resolve(reply, timeout_s=timeout_s))

    def map(
        self,
        model: str,
        iterable: Iterable[Inputs],
        *,
        window: int | None = None,
        ordered: bool = False,
        version: str | None = None,
        lane: str = "async",
        deadline_s: float = 300.0,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Iterator[Outcome]:
        """See `producer_sdk.Client.map`; the iterable is plain and is pulled in the thread that iterates."""
        feed, size = Feed(), check_window(window, self._max_pending)
        outcomes = self._client.map(
            model,
            feed,
            window=size,
            ordered=ordered,
            version=version,
            lane=lane,
            deadline_s=deadline_s,
            tenant=tenant,
            parameters=parameters,
            outputs=outputs,
        )
        return SyncMap(outcomes, feed, size).run(iterable, self._submit)

    def _wait_for(self, work: Coroutine[None, None, T]) -> T:
        future = self._submit(work)
        try:
            return future.result()
        except CancelledError as err:
            raise Cancelled("the client was closed") from err
        except BaseException:
            future.cancel()  # the waiting thread was interrupted
            raise

    def _submit(self, work: Coroutine[None, None, T]) -> Future[T]:
        with self._lock:
            if self._loop is not None:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        if self._thread is None:
            raise RuntimeError("the client is not started: use `with`, or call start() first")
        raise Cancelled("the client is closed")

    def _run(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        ready.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        await self._client.close()
