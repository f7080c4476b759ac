"""Whoever gives a request up, its cancel lies on the cancels topic: by SDK, by asyncio, by a gone HTTP caller."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from broker_clients import Clients, read
from worker_rig import HeadraceProcess

from gateway.listen import HttpServer, open_socket
from gateway.parts import Parts
from gateway.protocol import ConnectionLimits
from gateway.settings import GatewaySettings
from headrace.local_kafka import LocalKafka
from producer_sdk import Client
from producer_sdk.announcements import Announcement, ModelState, encode_announcement
from producer_sdk.broker import Broker, Outgoing, Record
from producer_sdk.cancels import Cancel, read_cancel
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Topics

MODEL = "silent"


@pytest.fixture
async def topics(clients: Clients, prefix: str) -> Topics:
    return await announced(clients, prefix)


async def announced(clients: Clients, prefix: str) -> Topics:
    """The topics of a model that is announced and has no worker, so that nothing is ever answered."""
    topics, admin, producer = Topics(prefix), await clients.admin(), await clients.producer()
    await ensure_system_topics(admin, topics, reply_partitions=2)
    await admin.create_topics(model_topics(topics, MODEL, partitions=1))
    said = Announcement("w0", MODEL, ("1",), ModelState.READY, int(time.time() * 1000), 60.0)
    await (await producer.publish(topics.control, Outgoing(said.key, encode_announcement(said))))
    return topics


async def cancels(clients: Clients, topics: Topics, count: int) -> list[Cancel]:
    """The first so many."""
    records = await read(await clients.reader(topics.cancels), count)
    assert all(record.key == read_cancel(record.value).id.encode() for record in records)
    return [read_cancel(record.value) for record in records]


async def request(clients: Clients, topics: Topics) -> Record:
    """The only request, once it is there."""
    (record,) = await read(await clients.reader(topics.requests(MODEL, "interactive")), 1)
    return record


@asynccontextmanager
async def gateway(broker: Broker, prefix: str) -> AsyncIterator[int]:
    """The port of a gateway in this event loop."""
    async with Parts(GatewaySettings(prefix=prefix)).open(broker) as app:
        with open_socket("127.0.0.1", 0) as listening:
            server = HttpServer(app, ConnectionLimits(head_timeout_s=10.0, max_connections=10))
            listening.listen()
            task = asyncio.create_task(server.serve([listening]))
            yield listening.getsockname()[1]
            server.should_exit = True
            await task


def rows(count: int) -> Iterator[dict[str, int]]:
    for number in range(count):
        yield {"x": number}


async def test_by_the_client(broker: Broker, clients: Clients, prefix: str, topics: Topics) -> None:
    async with Client(broker, prefix=prefix) as client:
        began_ms = int(time.time() * 1000)
        await client.cancel(await client.publish(MODEL, {"x": 1}, id="job-1"))
    (cancel,) = await cancels(clients, topics, 1)
    assert cancel.id == "job-1"
    assert began_ms <= cancel.at_ms <= int(time.time() * 1000)


async def test_by_asyncio(broker: Broker, clients: Clients, prefix: str, topics: Topics) -> None:
    async with Client(broker, prefix=prefix) as client:
        call = asyncio.create_task(client.infer(MODEL, {"x": 1}, id="job-1"))
        sent = await request(clients, topics)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await cancels(clients, topics, 1) == [Cancel("job-1", sent.timestamp)]


async def test_by_a_map_that_is_closed_early(broker: Broker, clients: Clients, prefix: str, topics: Topics) -> None:
    async with Client(broker, prefix=prefix) as client:
        outcomes = client.map(MODEL, rows(100), window=20)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0), aclosing(outcomes):
                await anext(outcomes)
    assert len({cancel.id for cancel in await cancels(clients, topics, 20)}) == 20


@pytest.mark.parametrize("reset", [False, True])
async def test_by_a_caller_over_http_that_hangs_up(
    broker: Broker, clients: Clients, prefix: str, topics: Topics, reset: bool
) -> None:
    tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
    body = json.dumps({"id": "job-1", "inputs": [tensor]}).encode()
    head = b"POST /v2/models/%s/infer HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (MODEL.encode(), len(body))
    async with gateway(broker, prefix) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        sent = await request(clients, topics)
        if reset:
            writer.transport.abort()
        else:
            writer.close()
            await writer.wait_closed()
        # Read before the gateway ends: at its end it would cancel the request in any case.
        assert await cancels(clients, topics, 1) == [Cancel("job-1", sent.timestamp)]


@pytest.mark.kafka
async def test_by_ctrl_c_at_the_terminal(kafka: LocalKafka, kafka_broker: Broker, prefix: str, tmp_path: Path) -> None:
    async with Clients(kafka_broker, prefix) as clients:
        topics = await announced(clients, prefix)
        flags = ["--bootstrap-servers", kafka.bootstrap_servers, "--prefix", prefix]
        asking = HeadraceProcess(["infer", MODEL, "--input", "x=1", "--id", "job-1", *flags], tmp_path / "log", {})
        asking.start()
        try:
            sent = await request(clients, topics)
            asking.process.send_signal(signal.SIGINT)
            assert await cancels(clients, topics, 1) == [Cancel("job-1", sent.timestamp)]
            assert await asyncio.to_thread(asking.process.wait, 10) != 0
        finally:
            asking.kill()
