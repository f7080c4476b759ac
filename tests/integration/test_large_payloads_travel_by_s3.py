"""Inputs and outputs that no record holds go by way of a bucket, and a bad object is the fault of its own request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from broker_clients import read
from model_folders import python_model
from s3 import Fault, S3Server, faulty
from worker_rig import running_worker, until

from producer_sdk import Client
from producer_sdk.broker import Broker, Outgoing, Record, TopicPartition
from producer_sdk.dataref import DataRef
from producer_sdk.errors import InputGone, InvalidRequest
from producer_sdk.payloads import Payloads, S3Settings
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Request, encode_request
from workers.serve import Worker

ANY = [{"name": "x", "datatype": "FP32", "shape": [-1]}]
ANY_OUT = [{"name": "y", "datatype": "FP32", "shape": [-1]}]
FIVE_MILLION = np.arange(5_000_000, dtype=np.float32).reshape(1, -1)  # 20 MB


@asynccontextmanager
async def served(
    broker: Broker, prefix: str, tmp_path: Path, url: str, bucket: str, **keys: object
) -> AsyncIterator[tuple[Worker, Client, Payloads]]:
    """A worker whose claims and results are in a bucket, a client that uses the same one, and the store."""
    models = python_model(tmp_path, "m", inputs=ANY, outputs=ANY_OUT, **keys)
    settings = S3Settings(url, frozenset([bucket]), bucket)
    store = Payloads(settings)
    async with (
        running_worker(broker, models, prefix, s3_endpoint_url=url, s3_claim_bucket=bucket) as worker,
        Client(broker, prefix=prefix, s3=store) as client,
    ):
        yield worker, client, store
    await store.close()


@asynccontextmanager
async def replies_on(broker: Broker, topic: str) -> AsyncIterator[Callable[[int], Awaitable[list[Record]]]]:
    """Waits for so many records of a topic, from its beginning."""
    admin = broker.admin()
    await admin.start()
    count = (await admin.topics())[topic]
    await admin.stop()
    consumer = broker.reader(frozenset(TopicPartition(topic, number) for number in range(count)), from_end=False)
    await consumer.start()
    try:
        yield lambda wanted: read(consumer, wanted)
    finally:
        await consumer.stop()


async def referring(broker: Broker, prefix: str, id: str, ref: DataRef) -> None:
    """Publish a request that refers to its inputs."""
    value = encode_request(Request(id, {}, ref=ref))
    producer = broker.producer()
    await producer.start()
    await (await producer.publish(Topics(prefix).requests("m", "async"), Outgoing(id.encode(), value), 0))
    await producer.stop()


async def test_20_mb_in_and_20_mb_out_come_back_right_though_records_hold_1_mb(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket = s3.new_bucket()
    async with served(broker, prefix, tmp_path, s3.url, bucket) as (_, client, _):
        reply = await client.infer("m", {"x": FIVE_MILLION}, deadline_s=15)
    np.testing.assert_array_equal(reply.outputs["y"], FIVE_MILLION * 2)
    assert len(s3.keys(bucket)) == 2


async def test_a_result_goes_to_the_bucket_that_the_request_names_and_a_record_points_to_it(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, results = s3.new_bucket(), Topics(prefix).results("m")
    async with served(broker, prefix, tmp_path, s3.url, bucket) as (_, client, _):
        id = await client.publish("m", {"x": np.array([[1, 2]], np.float32)}, reply_to=f"s3://{bucket}/out/", id="a-1")
        async with replies_on(broker, results) as records:
            (record,) = await records(1)
    head = s3.client.head_object(Bucket=bucket, Key="out/a-1.msgpack")["Metadata"]
    assert {name: head[name] for name in ("headrace-id", "headrace-model", "headrace-version", "headrace-code")} == {
        "headrace-id": id, "headrace-model": "m", "headrace-version": "1", "headrace-code": "OK",
    }  # fmt: skip
    pointer = decode_reply_record(record.value)
    whole = decode_reply_record(s3.data(bucket, "out/a-1.msgpack"))
    assert pointer.ref is not None
    assert pointer.ref.uri == f"s3://{bucket}/out/a-1.msgpack"
    assert pointer.ref.nbytes == len(s3.data(bucket, "out/a-1.msgpack"))
    assert whole.outputs["y"].tolist() == [[2.0, 4.0]]


async def test_a_second_run_leaves_the_first_answer_and_points_to_it(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, results = s3.new_bucket(), Topics(prefix).results("m")
    async with served(broker, prefix, tmp_path, s3.url, bucket) as (_, client, _):
        for value in (1, 5):  # as a redelivery would, but with another answer
            inputs = {"x": np.array([[value]], np.float32)}
            await client.publish("m", inputs, reply_to=f"s3://{bucket}/", id="again")
            async with replies_on(broker, results) as records:
                pointers = [decode_reply_record(each.value) for each in await records(1 if value == 1 else 2)]
    assert s3.keys(bucket) == ["again.msgpack"]
    assert decode_reply_record(s3.data(bucket, "again.msgpack")).outputs["y"].tolist() == [[2.0]]
    assert len({pointer.ref.sha256 for pointer in pointers if pointer.ref}) == 1


async def test_errors_are_stored_too_where_results_are_to_go_by_default(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, results = s3.new_bucket(), Topics(prefix).results("m")
    async with served(broker, prefix, tmp_path, s3.url, bucket, reply_to=f"s3://{bucket}/all/") as (_, client, _):
        await client.publish("m", {"wrong": np.array([[1]], np.float32)}, id="bad")
        await client.publish("m", {"x": np.array([[1]], np.float32)}, id="good")
        async with replies_on(broker, results) as records:
            told = {reply.id: reply for reply in [decode_reply_record(each.value) for each in await records(2)]}
    assert s3.keys(bucket) == ["all/bad.msgpack", "all/good.msgpack"]
    assert isinstance(told["bad"], InvalidRequest)
    stored = decode_reply_record(s3.data(bucket, "all/bad.msgpack"))
    assert isinstance(stored, InvalidRequest)
    assert stored.message == told["bad"].message


async def test_a_json_request_is_answered_by_a_json_object(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, topics = s3.new_bucket(), Topics(prefix)
    body = {"id": "j-1", "parameters": {"reply_to": f"s3://{bucket}/j/"},
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [3]}]}  # fmt: skip
    async with served(broker, prefix, tmp_path, s3.url, bucket):
        producer = broker.producer()
        await producer.start()
        await (await producer.publish(topics.requests("m", "async"), Outgoing(None, json.dumps(body).encode()), 0))
        await producer.stop()
        async with replies_on(broker, topics.results("m")) as records:
            (record,) = await records(1)
    pointer = json.loads(record.value or b"")
    assert (pointer["dataref"], pointer["outputs"]) == (f"s3://{bucket}/j/j-1.json", [])
    assert json.loads(s3.data(bucket, "j/j-1.json"))["outputs"][0]["data"] == [6.0]


async def test_a_missing_or_changed_object_fails_its_own_request_only(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, results = s3.new_bucket(), Topics(prefix).results("m")
    value = encode_request(Request("x", {"x": Tensor.from_array(np.array([[1]], np.float32))}))
    async with served(broker, prefix, tmp_path, s3.url, bucket) as (_, client, store):
        good = await store.claim(value, expires_ms=2**60, budget_s=5)
        await referring(broker, prefix, "good", good)
        await referring(broker, prefix, "missing", DataRef(f"s3://{bucket}/nothing"))
        await referring(broker, prefix, "changed", DataRef(good.uri, "0" * 64, good.nbytes))
        await referring(broker, prefix, "expired", DataRef(good.uri, good.sha256, good.nbytes, 1))
        await referring(broker, prefix, "forbidden", DataRef("s3://another-bucket/key"))
        await client.publish("m", {"x": np.array([[2]], np.float32)}, id="plain")
        async with replies_on(broker, results) as records:
            told = {reply.id: reply for reply in [decode_reply_record(each.value) for each in await records(6)]}
    assert told["good"].outputs["y"].tolist() == [[2.0]]
    assert told["plain"].outputs["y"].tolist() == [[4.0]]
    assert isinstance(told["missing"], InputGone)
    assert isinstance(told["changed"], InputGone)
    assert "sha256" in told["changed"].message
    assert isinstance(told["expired"], InputGone)
    assert isinstance(told["forbidden"], InvalidRequest)
    assert "another-bucket" in told["forbidden"].message


async def test_a_store_that_does_not_answer_holds_up_nobody_else(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket = s3.new_bucket()
    with faulty(s3) as proxy:
        async with served(broker, prefix, tmp_path, proxy.url, bucket) as (_, client, _):
            await client.infer("m", {"x": np.array([[1]], np.float32)})
            proxy.inject(Fault(hangs=True), times=None, method="GET")
            large = asyncio.create_task(client.infer("m", {"x": FIVE_MILLION[:, :500_000]}, deadline_s=15))
            await until(lambda: any(what.startswith("GET") for what in proxy.asked))
            small = [await client.infer("m", {"x": np.array([[n]], np.float32)}) for n in range(5)]
            assert not large.done()
            proxy.heal()
            reply = await large
    assert [each.outputs["y"].item() for each in small] == [0, 2, 4, 6, 8]
    assert reply.outputs["y"].shape == (1, 500_000)


async def test_a_result_waits_for_a_store_that_comes_back(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    bucket, results = s3.new_bucket(), Topics(prefix).results("m")
    with faulty(s3) as proxy:
        async with served(broker, prefix, tmp_path, proxy.url, bucket) as (_, client, _):
            proxy.inject(Fault(status=503), times=None, method="PUT")
            await client.publish("m", {"x": np.array([[1]], np.float32)}, reply_to=f"s3://{bucket}/", id="late")
            await until(lambda: bool(proxy.asked))
            small = await client.infer("m", {"x": np.array([[4]], np.float32)})
            proxy.heal()
            async with replies_on(broker, results) as records:
                (record,) = await records(1)
    assert small.outputs["y"].item() == 8
    assert decode_reply_record(record.value).ref is not None
    assert s3.keys(bucket) == ["late.msgpack"]


@pytest.mark.parametrize("wish", ["reply_to", "reference"])
async def test_a_worker_without_a_bucket_says_so_at_once(
    broker: Broker, prefix: str, tmp_path: Path, wish: str
) -> None:
    models = python_model(tmp_path, "m")
    ref = DataRef("s3://bucket/key") if wish == "reference" else None
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        if ref is not None:
            await referring(broker, prefix, "r", ref)
        else:
            await client.publish("m", {"x": np.array([[1, 2]], np.float32)}, reply_to="s3://bucket/p/", id="r")
        async with replies_on(broker, Topics(prefix).results("m")) as records:
            told = decode_reply_record((await records(1))[0].value)
    assert isinstance(told, InvalidRequest)
    assert "HEADRACE_S3_BUCKETS" in told.message
