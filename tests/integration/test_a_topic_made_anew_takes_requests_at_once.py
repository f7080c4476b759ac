"""A request topic that is made anew, with fewer partitions or more, takes requests of clients that knew the old one."""

import asyncio
import time

import numpy as np
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from headrace.local_kafka import LocalKafka
from producer_sdk import Client, UnknownModel
from producer_sdk.broker import Admin, Topic
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics

pytestmark = pytest.mark.timeout(180)
INPUTS = {"x": np.zeros((1, 2), np.float32)}


async def delete(kafka: LocalKafka, admin: Admin, topic: str) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await client.start()
    await client.delete_topics([topic])
    await client.close()
    for _ in range(200):
        if topic not in await admin.topics():
            return
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(("before", "after"), [(6, 1), (1, 6)])
async def test_requests_go_to_the_partitions_that_there_are(
    kafka: LocalKafka, kafka_broker: KafkaBroker, prefix: str, before: int, after: int
) -> None:
    topic, admin = Topics(prefix).requests("m", "async"), kafka_broker.admin()
    await admin.start()
    await admin.create_topics([Topic(topic, before)])
    async with Client(kafka_broker, prefix=prefix) as client:
        for _ in range(before):
            await client.publish("m", INPUTS)
        await delete(kafka, admin, topic)
        await admin.create_topics([Topic(topic, after)])
        began = time.monotonic()
        for _ in range(2 * before):
            await client.publish("m", INPUTS)
        assert time.monotonic() - began < 10
    await admin.stop()


async def test_a_topic_that_is_gone_makes_its_model_unknown(
    kafka: LocalKafka, kafka_broker: KafkaBroker, prefix: str
) -> None:
    topic, admin = Topics(prefix).requests("m", "interactive"), kafka_broker.admin()
    await admin.start()
    await admin.create_topics([Topic(topic, 3)])
    async with Client(kafka_broker, prefix=prefix) as client:
        await client.publish("m", INPUTS, lane="interactive")
        await delete(kafka, admin, topic)
        with pytest.raises(UnknownModel, match="there is no topic"):
            await client.infer("m", INPUTS, deadline_s=10)
    await admin.stop()
