"""The gateway's server on a real socket, over the broker in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

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
    async with parts.open(broker) as app:
        with open_socket("127.0.0.1", 0) as listening:
            server = HttpServer(app, limits)
            listening.listen()
            task = asyncio.create_task(server.serve([listening]))
            yield Running(parts, server, listening.getsockname()[1])
            server.should_exit = True
            await task


async def announce_without_worker(broker: MemoryBroker) -> None:
    """A model that never answers."""
    admin, producer = broker.admin(), broker.producer()
    await ensure_system_topics(admin, Topics())
    await admin.create_topics(model_topics(Topics(), "mlp", partitions=1))
    announcement = Announcement("w0", "mlp", ("1",), ModelState.READY, round(time.time() * 1000), 60.0)
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
