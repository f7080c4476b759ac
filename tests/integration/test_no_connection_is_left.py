"""A client of aiokafka that has been stopped holds no connection, whatever it was about to do."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.metadata import MetadataRequest
from broker_clients import Owner

from producer_sdk.broker import Topic, TopicPartition
from producer_sdk.kafka import KafkaBroker

KINDS = ("admin", "producer", "reader", "member")


@dataclass
class Held:
    """Requests of one kind that wait, and the connections that they are for."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    connections: list[AIOKafkaConnection] = field(default_factory=list)


def hold(monkeypatch: pytest.MonkeyPatch, kind: type) -> Held:
    """Hold back each request of the kind from now on."""
    send, held = AIOKafkaConnection.send, Held()

    def sending(conn: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Awaitable[Any]:
        async def later() -> Any:
            held.connections.append(conn)
            held.reached.set()
            await held.go_on.wait()
            return await send(conn, request, expect_response)

        return later() if isinstance(request, kind) else send(conn, request, expect_response)

    monkeypatch.setattr(AIOKafkaConnection, "send", sending)
    return held


def made(kind: str, broker: KafkaBroker, topic: str) -> Any:
    makes: dict[str, Callable[[], Any]] = {
        "admin": broker.admin,
        "producer": broker.producer,
        "reader": lambda: broker.reader(frozenset([TopicPartition(topic, 0)]), from_end=False),
        "member": lambda: broker.member(f"{topic}.group", frozenset([topic]), Owner()),
    }
    return makes[kind]()


def inner(client: Any) -> Any:
    """What aiokafka connects by."""
    if hasattr(client, "_sessions"):
        return client._sessions.usable.producer.client
    return (client._consumer if hasattr(client, "_consumer") else client._client)._client


@pytest.fixture
async def topic(kafka_broker: KafkaBroker, prefix: str) -> str:
    admin = kafka_broker.admin()
    await admin.start()
    await admin.create_topics([Topic(prefix, 1)])
    await admin.stop()
    return prefix


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_that_is_given_up_leaves_none(
    kind: str, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold(monkeypatch, MetadataRequest)
    client = made(kind, kafka_broker, topic)
    starting = asyncio.create_task(client.start())
    await asyncio.wait_for(held.reached.wait(), 10.0)
    starting.cancel()
    await asyncio.wait([starting])
    await client.stop()
    assert held.connections
    assert not any(conn.connected() for conn in held.connections)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_is_made_while_the_client_stops_is_closed(
    kind: str, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = made(kind, kafka_broker, topic)
    await client.start()
    connect = inner(client)._get_conn
    (node,) = [each.nodeId for each in inner(client).cluster.brokers()]
    held = hold(monkeypatch, ApiVersionRequest)
    connecting = asyncio.create_task(connect(node, group="another"))
    await asyncio.wait_for(held.reached.wait(), 10.0)
    await client.stop()
    held.go_on.set()
    assert await connecting is None
    assert not any(conn.connected() for conn in held.connections)
    assert await connect(node, group="a third") is None
