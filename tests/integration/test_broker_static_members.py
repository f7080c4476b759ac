"""A member with an `instance_id` comes back to its partitions unnoticed, and two of one id never fight for a place."""

import asyncio

import pytest
from broker_clients import QUICK, Clients, Owner, read

from producer_sdk.broker import BrokerError, CommitRefused, Committed, Misconfigured, Outgoing, TopicPartition
from producer_sdk.testing import MemoryBroker

SEVERAL_HEARTBEATS_S = 1.0
TAKEN = r"another worker uses group_instance_id 'a' in group .*: give each worker an id of its own"


async def test_who_comes_back_in_time_has_its_old_partitions_and_the_others_see_nothing(clients: Clients) -> None:
    topic, producer = await clients.topic(4), await clients.producer()
    before, after, other = Owner(), Owner(), Owner()
    member = await clients.member(topic, before, QUICK._replace(instance_id="a"))
    await before.until_it_owns(4)
    await clients.member(topic, other, QUICK._replace(instance_id="b"))
    own, _ = await before.until_it_owns(2), await other.until_it_owns(2)
    told = len(other.told)
    await member.commit({partition: Committed(0, "text") for partition in own})
    await member.stop()
    await asyncio.sleep(SEVERAL_HEARTBEATS_S)  # others would learn of a member that had left
    back = await clients.member(topic, after, QUICK._replace(instance_id="a"))
    assert await after.until_it_owns(2) == own
    assert set(after.starts.values()) == {Committed(0, "text")}
    for partition in own:
        await producer.publish_batch(topic, partition.partition, [Outgoing(None, b"x")])
    assert len(await read(back, 2)) == 2
    await back.commit({partition: Committed(1) for partition in own})
    await asyncio.sleep(SEVERAL_HEARTBEATS_S)
    assert len(other.told) == told


async def test_of_two_with_one_id_the_first_is_told_and_does_not_come_back(clients: Clients) -> None:
    topic, first, second = await clients.topic(2), Owner(), Owner()
    member = await clients.member(topic, first, QUICK._replace(instance_id="a"))
    own = await first.until_it_owns(2)
    later = await clients.member(topic, second, QUICK._replace(instance_id="a"))
    assert await second.until_it_owns(2) == own
    with pytest.raises(Misconfigured, match=TAKEN):
        await read(member, 1)
    with pytest.raises(CommitRefused):
        await member.commit({partition: Committed(1) for partition in own})
    await asyncio.sleep(SEVERAL_HEARTBEATS_S)
    await later.commit({partition: Committed(2) for partition in own})
    assert [what for _, what, _ in second.told] == ["assigned"]
    with pytest.raises(Misconfigured, match=TAKEN):
        await member.poll(1, 0.0)
    await member.stop()


async def test_a_place_that_is_taken_while_all_partitions_move_is_not_taken_back(clients: Clients) -> None:
    topic, told = await clients.topic(3), []  # type: ignore[var-annotated]
    first, slow, second, third = Owner("first", told), Owner("slow", told), Owner("second", told), Owner("third", told)
    member = await clients.member(topic, first, QUICK._replace(instance_id="a"))
    await first.until_it_owns(3)
    await clients.member(topic, slow)
    await slow.until(lambda: slow.owns is not None)
    await first.until(lambda: first.owns is not None and len(first.owns) < 3)
    slow.on_revoked = lambda: asyncio.sleep(2.0)
    await clients.member(topic, third)
    await first.until(lambda: first.owns is None)
    await asyncio.sleep(0.3)  # by now it waits for its share
    await clients.member(topic, second, QUICK._replace(instance_id="a"))
    with pytest.raises(Misconfigured, match=TAKEN):
        await read(member, 1)
    for owner in (slow, second, third):
        await owner.until_it_owns(1)


async def test_who_stops_for_good_is_missed_after_its_session_timeout(clients: Clients) -> None:
    topic, producer, first, second = await clients.topic(), await clients.producer(), Owner(), Owner()
    least_s = 1.5 if isinstance(clients.broker, MemoryBroker) else 6.0  # the least that Kafka's brokers allow
    brief = QUICK._replace(session_timeout_s=least_s, instance_id="a")
    member = await clients.member(topic, first, brief)
    await first.until_it_owns(1)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x")])
    await member.stop()
    with pytest.raises(BrokerError):
        await member.commit({TopicPartition(topic, 0): Committed(1)})
    other = await clients.member(topic, second, brief._replace(instance_id="b"))
    assert not await other.poll(1, 1.0)
    assert len(await read(other, 1)) == 1
