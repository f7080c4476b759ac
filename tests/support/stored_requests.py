"""Requests whose inputs are stored, a worker that fetches them through a proxy that may fail, what became of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from broker_clients import read
from model_folders import python_model
from s3 import FaultyS3, S3Server, faulty
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker, Outgoing, TopicPartition
from producer_sdk.dataref import DataRef
from producer_sdk.payloads import Payloads, S3Settings
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Array, Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Request, encode_request
from workers.serve import Worker

WIDTH = 4_000  # numbers, 16 kB
CLAIM_BYTES = 8_000
ANY = {"datatype": "FP32", "shape": [-1]}


class Served(NamedTuple):
    """What a test has in its hands; `bucket` is for claims."""

    proxy: FaultyS3
    worker: Worker
    client: Client
    store: Payloads
    bucket: str


@asynccontextmanager
async def served(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server, *buckets: str, **settings: object
) -> AsyncIterator[Served]:
    """A worker of a model that doubles; claims are above 8 kB, and all come through the proxy."""
    models = python_model(tmp_path, "m", inputs=[{"name": "x", **ANY}], outputs=[{"name": "y", **ANY}])
    bucket = s3.new_bucket()
    with faulty(s3) as proxy:
        store = Payloads(S3Settings(proxy.url, frozenset(buckets), bucket, CLAIM_BYTES))
        ours = {
            "s3_endpoint_url": proxy.url,
            "s3_buckets": buckets,
            "s3_claim_bucket": bucket,
            "claim_check_bytes": CLAIM_BYTES,
        }
        async with (
            running_worker(broker, models, prefix, **(ours | settings)) as worker,
            Client(broker, prefix=prefix, s3=store) as client,
        ):
            yield Served(proxy, worker, client, store, bucket)
        await store.close()


def row(n: float, width: int = WIDTH) -> dict[str, Array]:
    """Inputs of one row."""
    return {"x": np.full((1, width), n, np.float32)}


def value_of(n: float, width: int = WIDTH) -> bytes:
    """The record value of a request with these inputs, as it is stored."""
    return encode_request(Request("stored", {"x": Tensor.from_array(row(n, width)["x"])}))


async def publish(
    broker: Broker, prefix: str, requests: Iterable[Request], lane: str = "async", partition: int | None = None
) -> None:
    """Publish requests as they are."""
    producer, topic = broker.producer(), Topics(prefix).requests("m", lane)
    await producer.start()
    records = [Outgoing(request.id.encode(), encode_request(request)) for request in requests]
    acknowledged = [await producer.publish(topic, record, partition) for record in records]
    for each in acknowledged:
        await each
    await producer.stop()


async def refer(
    broker: Broker, prefix: str, refs: dict[str, DataRef], deadline_ms: int | None = None, lane: str = "async"
) -> None:
    """Publish requests that refer to their inputs, by id."""
    await publish(broker, prefix, [Request(id, {}, ref=ref, deadline_ms=deadline_ms) for id, ref in refs.items()], lane)


async def outcomes(broker: Broker, prefix: str, count: int) -> dict[str, Reply | HeadraceError]:
    """What the results topic holds, by id, once there are so many; each must be there once."""
    results = frozenset(TopicPartition(Topics(prefix).results("m"), n) for n in range(2))
    reader = broker.reader(results, from_end=False)
    await reader.start()
    told = [decode_reply_record(record.value) for record in await read(reader, count)]
    ends = sum((await reader.end_offsets(results)).values())
    await reader.stop()
    by_id = {str(each.id): each for each in told}
    assert ends == len(by_id) == count
    return by_id
