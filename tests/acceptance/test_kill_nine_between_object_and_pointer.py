"""kill -9 after a result was stored and before its pointer was published: one object, one pointer, one answer."""

from pathlib import Path

import numpy as np
import pytest
from broker_clients import read
from model_folders import python_model
from s3 import Fault, S3Server, faulty
from worker_rig import WorkerProcess, committed, until

from producer_sdk import Client
from producer_sdk.broker import TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.records import decode_reply_record
from producer_sdk.topics import Topics
from producer_sdk.wire import Reply


@pytest.mark.timeout(180)
async def test_kill_nine_between_the_object_and_its_pointer_leaves_one_of_each(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, topics = s3.new_bucket(), Topics(prefix)
    models = python_model(tmp_path / "models", "m")
    with faulty(s3) as proxy:
        given = s3.environment | {"HEADRACE_S3_ENDPOINT_URL": proxy.url, "HEADRACE_S3_BUCKETS": bucket}
        servers = kafka_broker.bootstrap_servers
        first, second = (
            WorkerProcess(servers, models, prefix, tmp_path / log, HEADRACE_SESSION_TIMEOUT_S="6", **given)
            for log in ("first.log", "second.log")
        )
        proxy.inject(Fault(loses_answer=True), times=None, method="PUT")  # stored, and the worker never hears of it
        first.start()
        try:
            await first.serves()
            async with Client(kafka_broker, prefix=prefix) as client:
                inputs = {"x": np.array([[1, 2]], np.float32)}
                await client.publish("m", inputs, reply_to=f"s3://{bucket}/out/", id="one")
            await until(lambda: bool(s3.keys(bucket)))
            first.kill()
            stored = s3.data(bucket, "out/one.msgpack")
            proxy.heal()
            second.start()
            await second.serves()
            results = frozenset(TopicPartition(topics.results("m"), number) for number in range(2))
            reader = kafka_broker.reader(results, from_end=False)
            await reader.start()
            (record,) = await read(reader, 1)
            while sum((await committed(kafka_broker, prefix)).values()) < 1:
                pass
            ends = await reader.end_offsets(results)
            await reader.stop()
        finally:
            first.kill()
            second.kill()
    assert sum(ends.values()) == 1
    assert s3.keys(bucket) == ["out/one.msgpack"]
    assert s3.data(bucket, "out/one.msgpack") == stored
    pointer = decode_reply_record(record.value)
    assert isinstance(pointer, Reply)
    assert pointer.ref is not None
    assert pointer.ref.uri == f"s3://{bucket}/out/one.msgpack"
