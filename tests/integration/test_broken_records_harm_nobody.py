"""Broken records are answered or dead-lettered, their offsets committed, and the good ones around them answered."""

import asyncio
import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker, Outgoing, TopicPartition
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo, Topics
from producer_sdk.wire import Request, encode_request

SEED = 20261201
BOMBS = [
    None,
    b"",
    b"\xc0",
    b"\x91" * 100_000,
    b"[" * 100_000,
    b'{"inputs":' * 100_000,
    b"\xdd" + struct.pack(">I", 2**32 - 1),
    b"\x99\x01" + b"\xc0" * 5 + b"\xdf" + struct.pack(">I", 2**32 - 1),
    b"\x92\x01\xdb" + struct.pack(">I", 2**32 - 1),
    b'{"inputs":[{"name":"x","shape":[999999999999,999999999],"datatype":"FP32","data":[1]}]}',
]


def mutated(count: int, replies: ReplyTo) -> list[bytes | None]:
    """Valid requests of both forms with some bytes changed, cut, doubled or inserted."""
    rng = random.Random(SEED)
    x = Tensor.from_array(np.array([[1, 2]], np.float32))
    inputs = [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]
    whole = [
        encode_request(Request("broken", {"x": x}, reply_to=replies)),
        json.dumps({"id": "broken", "parameters": {"reply_to": str(replies)}, "inputs": inputs}).encode(),
    ]
    broken: list[bytes | None] = []
    while len(broken) < count:
        value = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(value))
            value[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 4))
        broken.append(bytes(value))
    return broken


@pytest.mark.timeout(180)
async def test_3000_broken_records_leave_the_worker_live_and_every_offset_committed(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    models = python_model(tmp_path, "m", max_wait_ms=1)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        producer, admin = broker.producer(), broker.admin()
        await producer.start()
        await admin.start()
        broken = [*BOMBS, *mutated(3000 - len(BOMBS), ReplyTo(topics.results("m"), None))]
        good = []
        for start in range(0, 3000, 100):
            records = [Outgoing(None, value) for value in broken[start : start + 100]]
            await producer.publish_batch(topics.requests("m", "async"), start // 100 % 2, records)
            good.append(await client.infer("m", {"x": np.array([[start, 1]], np.float32)}, lane="async"))
        assert [reply.outputs["y"][0, 0] for reply in good] == [2.0 * start for start in range(0, 3000, 100)]
        assert (worker.health.live(), worker.health.ready()) == (None, None)
        await all_committed(broker, topics)
        await producer.stop()
        await admin.stop()


async def all_committed(broker: Broker, topics: Topics) -> None:
    """Wait until the group has committed the end of every partition that holds records."""
    partitions = frozenset(TopicPartition(topics.requests("m", "async"), n) for n in range(2))
    reader, admin = broker.reader(partitions, from_end=True), broker.admin()
    await reader.start()
    await admin.start()
    ends = await reader.end_offsets(partitions)
    committed: dict[TopicPartition, int] = {}

    async def look() -> None:
        committed.update({tp: each.offset for tp, each in (await admin.committed(topics.group("m"))).items()})

    for _ in range(100):
        await look()
        if all(committed.get(partition) == end for partition, end in ends.items()):
            break
        await asyncio.sleep(0.1)
    assert {partition: committed.get(partition) for partition in ends} == dict(ends)
    await reader.stop()
    await admin.stop()


async def test_an_unreadable_record_is_a_dead_letter_with_its_bytes_key_and_place(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    async with running_worker(broker, python_model(tmp_path, "m"), prefix):
        producer = broker.producer()
        await producer.start()
        await producer.publish_batch(topics.requests("m", "bulk"), 1, [Outgoing(b"key", b"\xc1junk", [("a", b"b")])])
        partition = TopicPartition(topics.dead("m"), 0)
        reader = broker.reader(frozenset({partition}), from_end=False)
        await reader.start()
        letter = (await reader.poll(10, 10.0))[partition][0]
        headers = dict(letter.headers)
        assert (letter.key, letter.value, headers["a"]) == (b"key", b"\xc1junk", b"b")
        place = [headers[f"headrace-dead-{name}"] for name in ("topic", "partition", "offset", "code")]
        assert place == [topics.requests("m", "bulk").encode(), b"1", b"0", b"INVALID_REQUEST"]
        await reader.stop()
        await producer.stop()


async def test_each_wrong_request_gets_its_own_typed_error(broker: Broker, prefix: str, tmp_path: Path) -> None:
    wrong = [
        ({"x": np.zeros((1, 3), np.float32)}, "shape"),
        ({"x": np.zeros((1, 2), np.float64)}, "FP64"),
        ({"z": np.zeros((1, 2), np.float32)}, "missing"),
        ({"x": np.zeros((1, 2), np.float32), "z": np.zeros((1, 2), np.float32)}, "not known"),
        ({"x": np.zeros((0, 2), np.float32)}, "rows"),
        ({"x": np.zeros((33, 2), np.float32)}, "33 rows"),
    ]
    async with running_worker(broker, python_model(tmp_path, "m"), prefix), Client(broker, prefix=prefix) as client:
        replies = [reply async for reply in client.map("m", (inputs for inputs, _ in wrong), ordered=True)]
    messages = [reply.message if isinstance(reply, HeadraceError) else "" for reply in replies]
    assert all(word in message for message, (_, word) in zip(messages, wrong, strict=True)), messages
