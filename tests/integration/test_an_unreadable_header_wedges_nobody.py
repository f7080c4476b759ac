"""A record with a header name that is not UTF-8 is passed over: all others are answered, every offset commits."""

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path

import pytest
from foreign_records import FOREIGN, publish_one_batch
from model_folders import python_model
from worker_rig import running_worker, until

from producer_sdk.broker import Consumer, Record, Topic, TopicPartition
from producer_sdk.directory import ModelDirectory
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics

INPUTS = [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]


def request(id: str) -> bytes:
    return json.dumps({"id": id, "inputs": INPUTS}).encode()


async def create(broker: KafkaBroker, name: str, partitions: int) -> list[TopicPartition]:
    admin = broker.admin()
    await admin.start()
    await admin.create_topics([Topic(name, partitions)])
    await admin.stop()
    return [TopicPartition(name, number) for number in range(partitions)]


async def read(reader: Consumer, count: int, max_records: int) -> list[Record]:
    """So many records in the order in which many polls gave them."""
    records: list[Record] = []
    async with asyncio.timeout(30.0):
        while len(records) < count:
            for haul in (await reader.poll(max_records, 0.5)).values():
                records += haul
    return records


@pytest.mark.timeout(180)
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("max_records", [1, 3, 500])
async def test_polls_give_every_record_once_and_in_order_around_unreadable_ones(
    kafka_broker: KafkaBroker, prefix: str, codec: int, max_records: int
) -> None:
    partitions = await create(kafka_broker, prefix, 3)
    batches = [[b"0", FOREIGN, FOREIGN, b"3"], [b"4", b"5"], [FOREIGN, b"7"], [b"8"], [FOREIGN], [b"10", FOREIGN]]
    for partition in partitions[:2]:
        for batch in batches:
            await publish_one_batch(kafka_broker.bootstrap_servers, partition, batch, codec)
    await publish_one_batch(kafka_broker.bootstrap_servers, partitions[2], [b"%d" % n for n in range(20)])
    reader = kafka_broker.reader(frozenset(partitions), from_end=False)
    await reader.start()
    records = await read(reader, 44, max_records)
    assert await reader.poll(10, 0.3) == {}
    assert reader.positions() == dict(zip(partitions, (12, 12, 20), strict=True))
    await reader.stop()
    flat = [value for batch in batches for value in batch]
    for partition in partitions[:2]:
        got = [(r.offset, r.value) for r in records if r.partition == partition.partition]
        assert got == list(enumerate(flat))
    assert [r.offset for r in records if r.partition == 2] == list(range(20))
    stand_ins = {(r.timestamp, r.key, tuple(r.headers)) for r in records if r.value is None}
    assert stand_ins == {(-1, None, ())}


async def test_a_record_behind_the_one_read_last_is_found_in_its_batch(kafka_broker: KafkaBroker, prefix: str) -> None:
    (partition,) = await create(kafka_broker, prefix, 1)
    await publish_one_batch(kafka_broker.bootstrap_servers, partition, [b"0", FOREIGN, b"2", b"3"])
    reader = kafka_broker.reader(frozenset([partition]), from_end=False)
    await reader.start()
    reader.seek(partition, 2)
    assert [(record.offset, record.value) for record in await read(reader, 2, 10)] == [(2, b"2"), (3, b"3")]
    await reader.stop()


@pytest.mark.timeout(180)
async def test_a_worker_answers_all_others_and_leaves_a_dead_letter_with_the_place(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Topics(prefix)
    requests = [TopicPartition(topics.requests("m", "async"), number) for number in range(2)]
    servers = kafka_broker.bootstrap_servers
    ids = [f"{number}-{n}" for number in range(2) for n in range(6)]
    caplog.set_level(logging.WARNING, "producer_sdk")
    async with running_worker(kafka_broker, python_model(tmp_path, "m"), prefix) as worker:
        for number, partition in enumerate(requests):
            a, b, c, d, e, f = (request(id) for id in ids[6 * number : 6 * number + 6])
            await publish_one_batch(servers, partition, [a, b])
            await publish_one_batch(servers, partition, [c, FOREIGN, d])
            await publish_one_batch(servers, partition, [e, f])
        replies = await all_of(kafka_broker, topics.results("m"), 2, 12)
        letters = await all_of(kafka_broker, topics.dead("m"), 1, 2)
        assert (worker.health.live(), worker.health.ready()) == (None, None)
        await committed(kafka_broker, topics.group("m"), dict.fromkeys(requests, 7))
    assert Counter(reply.key for reply in replies) == Counter(id.encode() for id in ids)
    places = [tuple(dict(letter.headers)[f"headrace-dead-{name}"] for name in ("topic", "partition", "offset", "code"))
              for letter in letters]  # fmt: skip
    assert sorted(places) == [(requests[0].topic.encode(), b"%d" % n, b"3", b"INVALID_REQUEST") for n in range(2)]
    assert [letter.value for letter in letters] == [None, None]
    said = sorted(record.getMessage()[:60] for record in caplog.records if "not UTF-8" in record.getMessage())
    assert len(said) == 2, said


async def all_of(broker: KafkaBroker, topic: str, partitions: int, count: int) -> list[Record]:
    """At least so many records of a topic, and what comes within a moment after them."""
    reader = broker.reader(frozenset(TopicPartition(topic, n) for n in range(partitions)), from_end=False)
    await reader.start()
    records = await read(reader, count, 500)
    for haul in (await reader.poll(500, 0.5)).values():
        records += haul
    await reader.stop()
    return records


async def committed(broker: KafkaBroker, group: str, wanted: dict[TopicPartition, int]) -> None:
    """Wait until the group has committed these offsets."""
    admin = broker.admin()
    await admin.start()
    async with asyncio.timeout(10.0):
        while True:
            offsets = await admin.committed(group)
            if {tp: offsets[tp].offset for tp in wanted if tp in offsets} == wanted:
                break
            await asyncio.sleep(0.05)
    await admin.stop()


async def test_a_directory_reads_past_it_on_the_control_topic(kafka_broker: KafkaBroker, prefix: str) -> None:
    topics = Topics(prefix)
    directory = ModelDirectory(kafka_broker, topics)
    await directory.start()
    control = TopicPartition(topics.control, 0)
    await publish_one_batch(kafka_broker.bootstrap_servers, control, [FOREIGN, b"x"])
    await until(lambda: directory._follower.position == 2 or directory.failed is not None)
    assert directory.failed is None
    await directory.close()
