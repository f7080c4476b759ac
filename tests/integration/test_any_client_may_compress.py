"""A request that another client compressed, by any of Kafka's codecs, is answered."""

import json
from pathlib import Path

import aiokafka
import pytest
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk.broker import TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics

BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_compressed_record_is_answered(
    codec: str, kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    async with running_worker(kafka_broker, python_model(tmp_path, "m"), prefix):
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, compression_type=codec
        ) as producer:
            await producer.send_and_wait(topics.requests("m", "async"), json.dumps(BODY | {"id": codec}).encode())
        partitions = frozenset(TopicPartition(topics.results("m"), n) for n in range(2))
        reader = kafka_broker.reader(partitions, from_end=False)
        await reader.start()
        records = [record for haul in (await reader.poll(10, 10.0)).values() for record in haul]
        await reader.stop()
    assert [(record.key, json.loads(record.value or b"")["outputs"][0]["data"]) for record in records] == [
        (codec.encode(), [2, 4])
    ]
