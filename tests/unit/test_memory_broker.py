"""Faults on request: what the broker in memory does beyond the promises that it shares with Kafka."""

import asyncio

import pytest
from broker_clients import Clients, Owner, read

from producer_sdk.broker import BrokerError, CommitRefused, Committed, GroupOptions, Outgoing, TopicPartition
from producer_sdk.testing import MemoryBroker

X = Outgoing(None, b"x")


async def test_a_failing_topic_takes_no_record_until_it_heals() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        broker.fail_publish(topic, BrokerError("lost"))
        with pytest.raises(BrokerError, match="lost"):
            await (await producer.publish(topic, X))
        with pytest.raises(BrokerError, match="lost"):
            await producer.publish_batch(topic, 0, [X])
        broker.fail_publish(topic, None)
        assert await producer.publish_batch(topic, 0, [X]) == 0


async def test_a_lost_acknowledgement_leaves_the_record() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        broker.fail_publish(topic, BrokerError("lost"), arrives=True)
        with pytest.raises(BrokerError):
            await producer.publish_batch(topic, 0, [X])
        assert len(await read(await clients.reader(topic), 1)) == 1


async def test_held_acknowledgements_come_when_released() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        broker.hold_acknowledgements()
        publishing = asyncio.create_task(producer.publish_batch(topic, 0, [X]))
        assert len(await read(await clients.reader(topic), 1)) == 1
        assert not publishing.done()
        broker.release_acknowledgements()
        assert await publishing == 0


async def test_an_acknowledgement_that_never_comes_is_an_error() -> None:
    broker = MemoryBroker(send_timeout_s=0.01)
    async with Clients(broker, "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        broker.hold_acknowledgements()
        with pytest.raises(BrokerError, match="may have arrived"):
            await producer.publish_batch(topic, 0, [X])


async def test_stopping_fails_what_is_still_not_acknowledged() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        broker.hold_acknowledgements()
        acknowledgement = await producer.publish(topic, X)
        await producer.stop(0.01)
        with pytest.raises(BrokerError, match="may have arrived"):
            await acknowledgement


async def test_a_killed_member_keeps_its_partitions_until_it_expires() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, producer, first, second = await clients.topic(), await clients.producer(), Owner(), Owner()
        member = await clients.member(topic, first)
        await first.until_it_owns(1)
        broker.kill(member)
        other = await clients.member(topic, second)
        await producer.publish_batch(topic, 0, [X])
        assert not await member.poll(1, 0.0)
        assert not await other.poll(1, 0.01)
        broker.expire()
        assert len(await read(other, 1)) == 1
        assert [what for _, what, _ in first.told] == ["assigned"]


async def test_a_killed_member_commits_until_it_expires_and_never_after() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        topic, owner = await clients.topic(), Owner()
        member, own = await clients.member(topic, owner), TopicPartition("t.topic", 0)
        await owner.until_it_owns(1)
        broker.kill(member)
        await member.commit({own: Committed(1)})
        broker.expire()
        with pytest.raises(CommitRefused):
            await member.commit({own: Committed(2)})
        assert await (await clients.admin()).committed(clients.group) == {own: Committed(1)}
        assert topic == own.topic


async def test_who_drains_too_long_is_put_out_and_joins_anew() -> None:
    broker, hasty = MemoryBroker(), GroupOptions(rebalance_timeout_s=0.02)
    async with Clients(broker, "t") as clients:
        topic, first, second, refused = await clients.topic(2), Owner(), Owner(), asyncio.Event()
        member = await clients.member(topic, first, hasty)
        own = await first.until_it_owns(2)

        async def drain() -> None:
            await second.until_it_owns(2)
            with pytest.raises(CommitRefused):
                await member.commit({partition: Committed(1) for partition in own})
            refused.set()

        first.on_revoked = drain
        await clients.member(topic, second)
        await refused.wait()
        assert len(await first.until_it_owns(1)) == 1


async def test_timestamps_come_from_the_clock_and_are_cut_as_kafkas_are() -> None:
    async with Clients(MemoryBroker(clock=lambda: 12.5007), "t") as clients:
        topic, producer = await clients.topic(), await clients.producer()
        await producer.publish_batch(topic, 0, [X])
        assert (await read(await clients.reader(topic), 1))[0].timestamp == 12_500


async def test_only_members_of_this_broker_can_be_killed() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        reader = await clients.reader(await clients.topic())
        with pytest.raises(TypeError, match="MemoryReader"):
            broker.kill(reader)
