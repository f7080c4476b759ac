"""A TCP proxy that makes a bad network between clients and a broker: latency, a black hole, resets, little bandwidth.

async with TcpProxy(kafka.proxied_port) as proxy: ...   in a test's own loop
with proxy_in_thread() as proxy: ...                    for programs, or for many tests
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

_CHUNK_BYTES = 1 << 16
_CHUNKS = 64  # on the way at most, in each direction of a connection
_NO_LINGER = struct.pack("ii", 1, 0)  # closing a socket sends RST then


@dataclass(frozen=True, slots=True)
class Network:
    """How the network is: `up` is from the client to the broker. Both latencies count each way."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float | None = None
    up: bool = True
    down: bool = True
    resets: bool = False


GOOD = Network()


class TcpProxy:
    """Listens on a free `port` and forwards to `target_port`, which may be set later.

    Any thread may change the network. What a black hole has swallowed comes late, when it ends, as TCP sends it again:
    nothing of a stream is ever lost.
    """

    def __init__(self, target_port: int = 0) -> None:
        self.target_port = target_port
        self.port = 0
        self.connections = 0  # accepted so far
        self._network = GOOD
        self.loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> TcpProxy:
        self.loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._end_all()
        await self._server.wait_closed()

    def heal(self) -> None:
        """Everything passes at once."""
        self._become(GOOD)

    def delay(self, latency_s: float, jitter_s: float = 0.0) -> None:
        """Each chunk takes so long, and up to `jitter_s` longer, each way; the order stays."""
        self._become(replace(self._network, latency_s=latency_s, jitter_s=jitter_s))

    def limit(self, bytes_per_s: float | None) -> None:
        """Each direction of each connection carries no more than that."""
        self._become(replace(self._network, bytes_per_s=bytes_per_s))

    def black_hole(self, *, up: bool = True, down: bool = True) -> None:
        """Connections are accepted and stay open, and nothing passes in the directions named."""
        self._become(replace(self._network, up=not up, down=not down))

    def reset(self) -> None:
        """All connections end with RST, and new ones too until `heal`."""
        self._become(Network(resets=True))

    def _become(self, network: Network) -> None:
        assert self.loop is not None
        try:
            here = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            here = False
        if here:
            self._set(network)
        else:
            asyncio.run_coroutine_threadsafe(self._set_soon(network), self.loop).result(5.0)

    async def _set_soon(self, network: Network) -> None:
        self._set(network)

    def _set(self, network: Network) -> None:
        self._network = network
        self._changed.set()
        self._changed = asyncio.Event()
        if network.resets:
            for task, writer in self._serving.items():
                _break(writer)
                task.cancel()

    async def _end_all(self) -> None:
        tasks = list(self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._network.resets:
            _break(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            await self._connect(reader, writer)
        except asyncio.CancelledError:
            pass  # a reset or the end of the proxy: nobody waits for this task
        finally:
            del self._serving[task]
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            _break(writer)
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, requests, up=True), name="proxy-up")
                group.create_task(self._pump(answers, writer, up=False), name="proxy-down")
        except* OSError:
            _break(writer)  # one end has gone: the other is told
        finally:
            requests.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect(reader, on_the_way), name="proxy-collect")
            group.create_task(self._deliver(on_the_way, writer, up=up), name="proxy-deliver")

    async def _collect(self, reader: asyncio.StreamReader, on_the_way: asyncio.Queue[tuple[float, bytes]]) -> None:
        chunk = b"first"
        while chunk:
            chunk = await reader.read(_CHUNK_BYTES)
            await on_the_way.put((asyncio.get_running_loop().time(), chunk))

    async def _deliver(
        self, on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        while True:
            sent_at, chunk = await on_the_way.get()
            await self._travel(sent_at, len(chunk), up=up)
            if not chunk:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()

    async def _travel(self, sent_at: float, nbytes: int, *, up: bool) -> None:
        """Wait until a chunk arrives."""
        network = self._network
        late_s = network.latency_s + random.uniform(0.0, network.jitter_s)
        late_s = sent_at + late_s - asyncio.get_running_loop().time()
        if network.bytes_per_s is not None:
            late_s = max(0.0, late_s) + nbytes / network.bytes_per_s
        if late_s > 0:
            await asyncio.sleep(late_s)
        while not (self._network.up if up else self._network.down):
            await self._changed.wait()


@contextmanager
def proxy_in_thread(target_port: int = 0) -> Iterator[TcpProxy]:
    """A proxy with a loop and a thread of its own."""
    proxy, started, stop = TcpProxy(target_port), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with proxy:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="tcp-proxy")
    thread.start()
    try:
        assert started.wait(5.0)
        yield proxy
    finally:
        assert proxy.loop is not None
        proxy.loop.call_soon_threadsafe(stop.set)
        thread.join(5.0)
    assert not thread.is_alive(), "the proxy did not end"


def _break(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() != -1:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
