"""The gateway's server on a real socket, over the broker in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from prompt_broker import PromptBroker

from gateway.app import App
from gateway.listen import HttpServer, open_socket
from gateway.parts import Parts
from gateway.protocol import ConnectionLimits
from gateway.settings import GatewaySettings
from producer_sdk.announcements import Announcement, ModelState, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.testing import MemoryBroker
from producer_sdk.topics import Topics

BODY = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
INFER = "/v2/models/mlp/infer"
LIMITS = ConnectionLimits(head_timeout_s=10.0, max_connections=100)


class Running:
    """A gateway that listens."""

    def __init__(self, parts: Parts, server: HttpServer, port: int) -> None:
        self.parts = parts
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def raw(self, request: bytes, within_s: float = 5) -> bytes:
        """Everything that comes back until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), within_s)
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def serving(
    broker: MemoryBroker, limits: ConnectionLimits = LIMITS, max_body_bytes: int = 100_000
) -> AsyncIterator[Running]:
    parts = Parts(GatewaySettings(max_body_bytes=max_body_bytes))
    async with parts.open(broker) as app, _listening(app, limits) as (server, port):
        yield Running(parts, server, port)


@asynccontextmanager
async def _listening(app: App, limits: ConnectionLimits) -> AsyncIterator[tuple[HttpServer, int]]:
    with open_socket("127.0.0.1", 0) as listening:
        server = HttpServer(app, limits)
        listening.listen()
        task = asyncio.create_task(server.serve([listening]))
        yield server, listening.getsockname()[1]
        server.should_exit = True
        await task


class _ToServer(httpx.AsyncHTTPTransport):
    """Sends all to our server, whatever host the URL names."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@asynccontextmanager
async def client_of(app: App, broker: MemoryBroker) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of a gateway: by ASGI, or on our own server where the broker takes records at once."""
    async with AsyncExitStack() as opened:
        transport: httpx.AsyncBaseTransport = httpx.ASGITransport(app=app)
        if isinstance(broker, PromptBroker):
            transport = _ToServer((await opened.enter_async_context(_listening(app, LIMITS)))[1])
        yield await opened.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://gateway"))


async def announce_without_worker(broker: MemoryBroker) -> None:
    """A model that never answers."""
    admin, producer = broker.admin(), broker.producer()
    await ensure_system_topics(admin, Topics())
    await admin.create_topics(model_topics(Topics(), "mlp", partitions=1))
    announcement = Announcement("w0", "mlp", ("1",), ModelState.READY, int(time.time() * 1000), 60.0)
    await producer.start()
    await (await producer.publish(Topics().control, Outgoing(announcement.key, encode_announcement(announcement))))
    await producer.stop()


def infer_of(body: bytes) -> bytes:
    """A whole request."""
    return b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (INFER.encode(), len(body)) + body


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")
