"""Topics are made once, with their settings, and are usable when that is said."""

import asyncio

import pytest
from broker_clients import Clients

from producer_sdk.broker import Bounds, BrokerError, NoSuchPlace, Outgoing, Topic, TopicPartition


async def test_new_topics_are_listed_and_usable_at_once(clients: Clients) -> None:
    admin, producer, prefix = await clients.admin(), await clients.producer(), clients.prefix
    created = await admin.create_topics([Topic(f"{prefix}.a", 3), Topic(f"{prefix}.b", 1)])
    listed = await admin.topics()
    assert created == {f"{prefix}.a", f"{prefix}.b"}
    assert (listed[f"{prefix}.a"], listed[f"{prefix}.b"]) == (3, 1)
    assert await producer.publish_batch(f"{prefix}.a", 2, [Outgoing(None, b"x")]) == 0


async def test_a_topic_that_is_there_is_left_as_it_is(clients: Clients) -> None:
    admin, topic = await clients.admin(), await clients.topic(2)
    assert await admin.create_topics([Topic(topic, 5)]) == frozenset()
    assert (await admin.topics())[topic] == 2


async def test_who_makes_a_topic_at_the_same_time_is_no_fault(clients: Clients) -> None:
    admins = [await clients.admin() for _ in range(3)]
    wanted = [Topic(f"{clients.prefix}.{name}", 1) for name in "ab"]
    created = await asyncio.gather(*(admin.create_topics(wanted) for admin in admins))
    assert sorted(name for names in created for name in names) == [topic.name for topic in wanted]


async def test_a_topic_that_cannot_be_made_is_named_and_the_others_are_made(clients: Clients) -> None:
    admin, prefix = await clients.admin(), clients.prefix
    with pytest.raises(BrokerError, match=rf"{prefix}\.bad"):
        await admin.create_topics([Topic(f"{prefix}.bad", 0), Topic(f"{prefix}.good", 1)])
    assert f"{prefix}.good" in await admin.topics()


async def test_a_group_that_never_was_has_committed_nothing(clients: Clients) -> None:
    assert await (await clients.admin()).committed(clients.group) == {}


async def test_the_bounds_of_a_partition_are_its_oldest_record_and_the_next_one(clients: Clients) -> None:
    admin, topic, producer = await clients.admin(), await clients.topic(2), await clients.producer()
    await producer.publish_batch(topic, 1, [Outgoing(None, b"x") for _ in range(5)])
    await clients.cut(TopicPartition(topic, 1), 2)
    bounds = await admin.bounds([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert bounds == {TopicPartition(topic, 0): Bounds(0, 0), TopicPartition(topic, 1): Bounds(2, 5)}


async def test_a_partition_that_is_not_there_has_no_bounds(clients: Clients) -> None:
    admin, topic = await clients.admin(), await clients.topic(1)
    with pytest.raises(NoSuchPlace, match=topic):
        await admin.bounds([TopicPartition(topic, 7)])
    with pytest.raises(NoSuchPlace, match="unknown"):
        await admin.bounds([TopicPartition(f"{clients.prefix}.unknown", 0)])
