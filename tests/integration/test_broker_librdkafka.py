"""What librdkafka alone has: KIP-848 groups, and groups that members on aiokafka cannot share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from broker_clients import QUICK, Clients, Owner, read

from producer_sdk._rdkafka_member import RdMember
from producer_sdk.broker import CommitRefused, Committed, Misconfigured, Outgoing, Topic, TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import GroupProtocol, RdKafkaBroker

pytestmark = pytest.mark.kafka
Kind = type[KafkaBroker] | type[RdKafkaBroker]
CLIENTS = ["aiokafka first", "librdkafka first"]


@pytest.fixture
async def next_generation(kafka_broker: KafkaBroker, prefix: str) -> AsyncIterator[Clients]:
    """Clients whose members join by KIP-848."""
    async with Clients(_broker(kafka_broker, "consumer"), prefix) as clients:
        yield clients


def _broker(kafka_broker: KafkaBroker, protocol: GroupProtocol) -> RdKafkaBroker:
    return RdKafkaBroker(kafka_broker.bootstrap_servers, group_protocol=protocol)


@pytest.mark.timeout(40)
async def test_members_by_kip_848_hand_partitions_over_and_begin_where_the_last_owner_committed(
    next_generation: Clients,
) -> None:
    topic, producer = await next_generation.topic(2), await next_generation.producer()
    for partition in range(2):
        await producer.publish_batch(topic, partition, [Outgoing(None, b"x") for _ in range(3)])
    first, second = Owner(), Owner()
    member = await next_generation.member(topic, first)
    await read(member, 6)
    first.on_revoked = lambda: member.commit(dict.fromkeys(first.owns or (), Committed(2, "closed")))
    other = await next_generation.member(topic, second)
    (moved,) = await second.until_it_owns(1)
    assert second.starts == {moved: Committed(2, "closed")}
    assert [record.offset for record in await read(other, 1)] == [2]
    with pytest.raises(CommitRefused, match="somebody else"):
        await member.commit({moved: Committed(0)})


@pytest.mark.parametrize(
    ("resident", "other"), [(KafkaBroker, RdKafkaBroker), (RdKafkaBroker, KafkaBroker)], ids=CLIENTS
)
async def test_a_member_does_not_join_a_group_of_the_other_client(
    kafka_broker: KafkaBroker, prefix: str, resident: Kind, other: Kind
) -> None:
    async with Clients(resident(kafka_broker.bootstrap_servers), prefix) as clients:
        topic, owner = await clients.topic(), Owner()
        await clients.member(topic, owner)
        await owner.until_it_owns(1)
        stranger = other(kafka_broker.bootstrap_servers).member(clients.group, frozenset([topic]), Owner(), QUICK)
        await stranger.start()
        with pytest.raises(Misconfigured, match="give all workers of a model the same kafka_client and group_protocol"):
            await read(stranger, 1)
        await stranger.stop(2.0)


async def test_a_paused_partition_does_not_hold_up_the_others_and_loses_nothing(
    kafka_broker: KafkaBroker, prefix: str
) -> None:
    async with Clients(RdKafkaBroker(kafka_broker.bootstrap_servers), prefix) as clients:
        topic, producer = await clients.topic(2), await clients.producer()
        for partition in range(2):
            for _ in range(4):
                await producer.publish_batch(topic, partition, [Outgoing(None, b"x" * 100)] * 1000)
        reader = await clients.reader(topic, 0, 1)
        reader.pause(frozenset([TopicPartition(topic, 0)]))
        assert {record.partition for record in await read(reader, 4000)} == {1}
        await asyncio.sleep(0.2)
        reader.resume(frozenset([TopicPartition(topic, 0)]))
        assert [record.offset for record in await read(reader, 4000)] == list(range(4000))


@pytest.mark.timeout(40)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_who_joins_gets_its_part_of_every_topic(
    kafka_broker: KafkaBroker, prefix: str, protocol: GroupProtocol
) -> None:
    broker, topics, first, second = (
        _broker(kafka_broker, protocol),
        [f"{prefix}.{each}" for each in "ab"],
        Owner(),
        Owner(),
    )
    async with Clients(broker, prefix) as clients:
        await (await clients.admin()).create_topics([Topic(topics[0], 4), Topic(topics[1], 2)])
        members = [broker.member(clients.group, frozenset(topics), owner, QUICK) for owner in (first, second)]
        try:
            await members[0].start()
            await first.until_it_owns(6)
            await members[1].start()
            owned = await second.until_it_owns(3)
        finally:
            await asyncio.gather(*(member.stop() for member in members))
    assert Counter(topic for topic, _ in owned) == {topics[0]: 2, topics[1]: 1}


async def test_a_member_that_seeks_reads_the_rest_on(kafka_broker: KafkaBroker, prefix: str) -> None:
    async with Clients(RdKafkaBroker(kafka_broker.bootstrap_servers), prefix) as clients:
        topic, producer, owner = await clients.topic(2), await clients.producer(), Owner()
        for partition in range(2):
            await producer.publish_batch(topic, partition, [Outgoing(None, b"x")] * 3)
        member = await clients.member(topic, owner)
        await read(member, 6)
        member.seek(TopicPartition(topic, 1), 1)
        assert [record.offset for record in await read(member, 2)] == [1, 2]
        await producer.publish_batch(topic, 0, [Outgoing(None, b"y")])
        assert [(record.partition, record.offset) for record in await read(member, 1)] == [(0, 3)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_partitions_that_were_paused_leave_and_come_back_and_are_read_to_their_ends(
    kafka_broker: KafkaBroker, prefix: str, protocol: GroupProtocol
) -> None:
    async with Clients(_broker(kafka_broker, protocol), prefix) as clients:
        topic, producer, owner, other = await clients.topic(4), await clients.producer(), Owner(), Owner()
        closed, beside = frozenset(TopicPartition(topic, each) for each in range(3)), TopicPartition(topic, 3)
        ends = dict.fromkeys(closed, 3000) | {beside: 0}
        for partition in closed:
            for _ in range(3):
                await producer.publish_batch(*partition, [Outgoing(None, b"x")] * 1000)
        member = await clients.member(topic, owner)
        await owner.until_it_owns(4)
        member.pause(closed)
        assert isinstance(member, RdMember)
        while member._thread is None or member._thread._paused != closed:  # enough of them waits
            await producer.publish_batch(*beside, [Outgoing(None, b"x")] * 100)
            ends[beside] += 100
            await read(member, 100)
        passing = clients.broker.member(clients.group, frozenset([topic]), other, QUICK)
        await passing.start()
        await other.until_it_owns(2)
        await passing.stop()
        await owner.until_it_owns(4)
        member.resume(closed)
        left = {(*each, offset) for each, start in member.positions().items() for offset in range(start, ends[each])}
        records = await read(member, len(left))
        assert {(each.topic, each.partition, each.offset) for each in records} == left
