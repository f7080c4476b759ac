"""What lies at the end of a partition and is no record (an aborted transaction, its marker) is committed past, too."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from model_folders import python_model
from worker_rig import committed, running_worker

from producer_sdk import Client
from producer_sdk.broker import Broker, TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.memory import MemoryBroker
from producer_sdk.topics import Topics


async def until_committed(broker: Broker, prefix: str, partition: TopicPartition, offset: int) -> None:
    async with asyncio.timeout(10.0):
        while True:
            if (await committed(broker, prefix)).get(partition) == offset:
                return
            await asyncio.sleep(0.05)


async def ask(broker: Broker, prefix: str) -> None:
    async with Client(broker, prefix=prefix) as client:
        await client.infer("m", {"x": np.array([[1, 2]], np.float32)}, lane="async")


async def test_a_gap_at_the_end_is_committed_past(prefix: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    place = TopicPartition(Topics(prefix).requests("m", "async"), 0)
    async with running_worker(broker, python_model(tmp_path, "m"), prefix, partitions=1):
        await ask(broker, prefix)
        await until_committed(broker, prefix, place, 1)
        broker.gap(place, 3)
        await until_committed(broker, prefix, place, 4)


@pytest.mark.timeout(40)
async def test_an_aborted_transaction_at_the_end_is_committed_past(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    place = TopicPartition(Topics(prefix).requests("m", "async"), 0)
    async with running_worker(kafka_broker, python_model(tmp_path, "m"), prefix, partitions=1) as worker:
        await ask(kafka_broker, prefix)
        await until_committed(kafka_broker, prefix, place, 1)
        producer = AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=prefix)
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(place.topic, b"never to be read", partition=0)
        await asyncio.sleep(0.5)
        lag_while_open = worker.loops[0].intake.lag()
        await producer.abort_transaction()
        await producer.stop()
        await until_committed(kafka_broker, prefix, place, 3)
        assert lag_while_open == 0
