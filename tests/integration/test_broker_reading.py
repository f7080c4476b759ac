"""Readers of fixed partitions know where they begin, and pausing loses nothing."""

import asyncio

import pytest
from broker_clients import Clients, Owner, read

from producer_sdk.broker import BrokerError, CommitRefused, Committed, Outgoing, TopicPartition


async def test_a_reader_from_the_end_sees_only_what_comes_after_its_start(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"before")])
    reader = await clients.reader(topic, from_end=True)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"after")])
    assert [record.value for record in await read(reader, 1)] == [b"after"]


async def test_a_reader_from_the_beginning_sees_everything_of_its_partitions_alone(clients: Clients) -> None:
    topic, producer = await clients.topic(3), await clients.producer()
    for partition in range(3):
        await producer.publish_batch(topic, partition, [Outgoing(None, b"%d" % partition)])
    reader = await clients.reader(topic, 0, 2)
    assert sorted(record.value or b"" for record in await read(reader, 2)) == [b"0", b"2"]
    assert not await reader.poll(10, 0.2)


async def test_a_reader_of_an_unknown_partition_does_not_start(clients: Clients) -> None:
    topic = await clients.topic(2)
    with pytest.raises(BrokerError, match=r"topic.*2"):
        await clients.reader(topic, 2)
    with pytest.raises(BrokerError, match=r"unknown"):
        await clients.reader(f"{topic}.unknown", 0)


async def test_an_empty_poll_ends_in_time_and_wakes_for_a_record(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    reader = await clients.reader(topic)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert not await reader.poll(10, 0.1)
    assert 0.05 < loop.time() - started < 5.0
    polling = asyncio.create_task(reader.poll(10, 10.0))
    await asyncio.sleep(0.05)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x")])
    assert sum(map(len, (await asyncio.wait_for(polling, 5.0)).values())) == 1


async def test_a_poll_gives_at_most_what_was_asked_for_and_nothing_is_lost(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    for partition in range(2):
        await producer.publish_batch(topic, partition, [Outgoing(None, b"%d" % n) for n in range(50)])
    reader = await clients.reader(topic, 0, 1)
    polls = [sum(map(len, (await reader.poll(7, 1.0)).values())) for _ in range(8)]
    assert max(polls) <= 7
    assert len(await read(reader, 100 - sum(polls))) == 100 - sum(polls)


async def test_paused_partitions_give_nothing_and_resuming_gives_everything(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    reader = await clients.reader(topic, 0, 1)
    reader.pause(frozenset([TopicPartition(topic, 0), TopicPartition("foreign", 0)]))
    for partition in range(2):
        await producer.publish_batch(topic, partition, [Outgoing(None, b"%d" % partition) for _ in range(3)])
    assert {record.value for record in await read(reader, 3)} == {b"1"}
    assert not await reader.poll(10, 0.2)
    reader.resume(frozenset([TopicPartition(topic, 0)]))
    assert {record.value for record in await read(reader, 3)} == {b"0"}


async def test_pausing_between_two_polls_repeats_and_skips_nothing(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"%d" % number) for number in range(20)])
    reader, own = await clients.reader(topic), frozenset([TopicPartition(topic, 0)])
    seen = await read(reader, 5)
    reader.pause(own)
    assert not await reader.poll(10, 0.2)
    reader.resume(own)
    seen += await read(reader, 15)
    assert [record.offset for record in seen] == list(range(20))


async def test_resuming_wakes_a_poll(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"a"), Outgoing(None, b"b")])
    reader, own = await clients.reader(topic), frozenset([TopicPartition(topic, 0)])
    await read(reader, 1)
    reader.pause(own)
    polling = asyncio.create_task(reader.poll(10, 10.0))
    await asyncio.sleep(0.05)
    reader.resume(own)
    assert sum(map(len, (await asyncio.wait_for(polling, 5.0)).values())) == 1


async def test_seeking_reads_again_from_there(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"%d" % number) for number in range(5)])
    reader = await clients.reader(topic)
    await read(reader, 5)
    reader.seek(TopicPartition(topic, 3), 0)
    reader.seek(TopicPartition(topic, 0), 3)
    assert [record.offset for record in await read(reader, 2)] == [3, 4]


async def test_the_lag_is_what_was_not_yet_polled(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    own = TopicPartition(topic, 0)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x") for _ in range(10)])
    reader = await clients.reader(topic)
    await read(reader, 4)
    assert dict(reader.lag()) == {own: 6}
    assert await reader.end_offsets(frozenset([own])) == {own: 10}


async def test_a_reader_is_in_no_group(clients: Clients) -> None:
    topic = await clients.topic()
    reader = await clients.reader(topic)
    assert reader.assignment() == {TopicPartition(topic, 0)}
    with pytest.raises(CommitRefused):
        await reader.commit({TopicPartition(topic, 0): Committed(0)})


async def test_a_stopped_consumer_says_so(clients: Clients) -> None:
    topic = await clients.topic()
    owner = Owner()
    for consumer in (await clients.reader(topic), await clients.member(topic, owner)):
        await consumer.stop()
        with pytest.raises(BrokerError, match="stopped"):
            await consumer.poll(1, 0.1)
