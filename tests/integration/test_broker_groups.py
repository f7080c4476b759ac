"""A group shares out its partitions, hands them over in order, and lets only their owner commit."""

import asyncio
from collections.abc import Mapping

import pytest
from broker_clients import Clients, Owner, read

from producer_sdk.broker import Broker, BrokerError, CommitRefused, Committed, Outgoing, TopicPartition


async def test_two_members_share_all_partitions(clients: Clients) -> None:
    topic = await clients.topic(4)
    first, second = Owner("first"), Owner("second")
    member = await clients.member(topic, first)
    alone = await first.until_it_owns(4)
    other = await clients.member(topic, second)
    halves = await first.until_it_owns(2), await second.until_it_owns(2)
    assert halves[0] | halves[1] == alone == {TopicPartition(topic, number) for number in range(4)}
    assert (member.assignment(), other.assignment()) == halves


async def test_a_revocation_ends_before_anybody_gets_the_partitions(clients: Clients) -> None:
    topic, told = await clients.topic(2), []  # type: ignore[var-annotated]
    first, second = Owner("first", told), Owner("second", told)
    await clients.member(topic, first)
    await first.until_it_owns(2)
    first.on_revoked = lambda: asyncio.sleep(0.5)
    await clients.member(topic, second)
    await second.until_it_owns(1)
    await first.until_it_owns(1)
    revoked = next(n for n, (name, what, _) in enumerate(told) if (name, what) == ("first", "revoked"))
    given = next(n for n, (name, _, partitions) in enumerate(told) if name == "second" and partitions)
    assert told[0][:2] == ("first", "assigned")
    assert revoked < given


async def test_when_a_member_leaves_the_other_takes_over_from_what_is_committed(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"%d" % number) for number in range(10)])
    first, second, own = Owner(), Owner(), TopicPartition(topic, 0)
    member = await clients.member(topic, first)
    await read(member, 10)
    await member.commit({own: Committed(4)})
    other = await clients.member(topic, second)
    await asyncio.sleep(0.3)
    await member.stop()
    await second.until_it_owns(1)
    assert [record.offset for record in await read(other, 6)] == list(range(4, 10))


async def test_leaving_tells_the_one_who_leaves_nothing(clients: Clients) -> None:
    topic, owner = await clients.topic(), Owner()
    member = await clients.member(topic, owner)
    await owner.until_it_owns(1)
    await member.stop()
    assert [what for _, what, _ in owner.told] == ["assigned"]


async def test_a_member_without_a_partition_is_told_that_it_joined(clients: Clients) -> None:
    topic = await clients.topic(1)
    first, second = Owner(), Owner()
    await clients.member(topic, first)
    await first.until_it_owns(1)
    await clients.member(topic, second)
    await second.until(lambda: second.owns is not None)
    await first.until(lambda: first.owns is not None)
    assert {len(first.owns or ()), len(second.owns or ())} == {0, 1}


async def test_the_revoked_owner_can_still_commit_and_the_next_begins_there(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    for partition in range(2):
        await producer.publish_batch(topic, partition, [Outgoing(None, b"x") for _ in range(5)])
    first, second = Owner("first"), Owner("second")
    member = await clients.member(topic, first)
    await read(member, 10)
    first.on_revoked = lambda: member.commit(dict.fromkeys(first.owns or (), Committed(5, "closed")))
    await clients.member(topic, second)
    (own,) = await second.until_it_owns(1)
    assert second.starts == {own: Committed(5, "closed")}


async def test_nobody_commits_after_the_revocation(clients: Clients) -> None:
    topic, told = await clients.topic(2), []  # type: ignore[var-annotated]
    first, second = Owner("first", told), Owner("second", told)
    member = await clients.member(topic, first)
    before = await first.until_it_owns(2)
    await clients.member(topic, second)
    given_up = before - await first.until_it_owns(1)
    with pytest.raises(CommitRefused, match="somebody else"):
        await member.commit({partition: Committed(0) for partition in given_up})
    assert not await (await clients.admin()).committed(clients.group)


async def test_a_stopped_member_cannot_commit(clients: Clients) -> None:
    topic, owner = await clients.topic(), Owner()
    member = await clients.member(topic, owner)
    own = await owner.until_it_owns(1)
    await member.stop()
    with pytest.raises(CommitRefused):
        await member.commit({partition: Committed(1) for partition in own})


async def test_committed_text_is_read_back(clients: Clients) -> None:
    topic, owner, admin = await clients.topic(2), Owner(), await clients.admin()
    member = await clients.member(topic, owner)
    await owner.until_it_owns(2)
    wanted = {TopicPartition(topic, 0): Committed(7, "täxt " * 100), TopicPartition(topic, 1): Committed(0)}
    assert await admin.committed(clients.group) == {}
    await member.commit(wanted)
    assert await admin.committed(clients.group) == wanted


async def test_text_beyond_the_limit_is_an_error_and_the_member_goes_on(clients: Clients) -> None:
    topic, owner = await clients.topic(), Owner()
    member, own = await clients.member(topic, owner), TopicPartition(topic, 0)
    await owner.until_it_owns(1)
    with pytest.raises(BrokerError) as caught:
        await member.commit({own: Committed(1, "x" * 5000)})
    assert not isinstance(caught.value, CommitRefused)
    await member.commit({own: Committed(1)})


async def test_polling_with_everything_paused_keeps_the_membership(clients: Clients) -> None:
    topic, producer, owner = await clients.topic(), await clients.producer(), Owner()
    member = await clients.member(topic, owner)
    own = await owner.until_it_owns(1)
    member.pause(own)
    await producer.publish_batch(topic, 0, [Outgoing(None, b"x")])
    assert not await member.poll(10, 0.5)
    await member.commit({partition: Committed(0) for partition in own})
    member.resume(own)
    assert len(await read(member, 1)) == 1
    assert [what for _, what, _ in owner.told] == ["assigned"]


async def test_a_new_assignment_starts_unpaused(clients: Clients) -> None:
    topic, producer, first, second = await clients.topic(2), await clients.producer(), Owner(), Owner()
    member = await clients.member(topic, first)
    member.pause(await first.until_it_owns(2))
    other = await clients.member(topic, second)
    await second.until_it_owns(1)
    await first.until_it_owns(1)
    await other.stop()
    for partition in await first.until_it_owns(2):
        await producer.publish_batch(topic, partition.partition, [Outgoing(None, b"x")])
    assert len(await read(member, 2)) == 2


@pytest.mark.parametrize("when", ["assigned", "revoked"])
async def test_a_fault_of_the_owner_ends_the_consumer(clients: Clients, when: str) -> None:
    class Faulty(Owner):
        async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None:
            await super().assigned(starts)
            if when == "assigned":
                raise KeyError("lost")

        async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
            raise KeyError("lost")

    topic, owner = await clients.topic(2), Faulty()
    member = await clients.member(topic, owner)
    await owner.until_it_owns(2)
    if when == "revoked":
        await clients.member(topic)
    with pytest.raises(BrokerError, match=f"partitions {when}.*lost"):
        await read(member, 1)


async def test_a_member_of_an_unknown_topic_does_not_start(broker: Broker, clients: Clients) -> None:
    admin = await clients.admin()
    with pytest.raises(BrokerError, match=r"unknown do not exist"):
        await clients.member(f"{clients.prefix}.unknown")
    assert f"{clients.prefix}.unknown" not in await admin.topics()
