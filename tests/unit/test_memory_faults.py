"""Faults on request: what a client of the broker in memory meets when the broker is away, slow or forgetful."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from broker_clients import QUICK, Clients, Owner, read

from producer_sdk.broker import BrokerError, Committed, Consumer, Outgoing, TopicPartition
from producer_sdk.testing import MemoryBroker

X = Outgoing(None, b"x")
OWN = TopicPartition("t.topic", 0)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(send_timeout_s=0.05, commit_timeout_s=0.05)


@pytest.fixture
async def clients(broker: MemoryBroker) -> AsyncIterator[Clients]:
    async with Clients(broker, "t") as clients:
        yield clients


async def owning(clients: Clients) -> Consumer:
    owner = Owner()
    member = await clients.member(await clients.topic(), owner)
    await owner.until_it_owns(1)
    return member


@pytest.mark.parametrize("arrives", [False, True])
async def test_a_failing_commit_arrives_or_not_as_wanted(broker: MemoryBroker, clients: Clients, arrives: bool) -> None:
    member, admin = await owning(clients), await clients.admin()
    broker.fail_commits(BrokerError("lost"), arrives=arrives)
    with pytest.raises(BrokerError, match="lost"):
        await member.commit({OWN: Committed(1)})
    assert await admin.committed(clients.group) == ({OWN: Committed(1)} if arrives else {})
    broker.fail_commits(None)
    await member.commit({OWN: Committed(2)})
    assert await admin.committed(clients.group) == {OWN: Committed(2)}


async def test_a_held_commit_has_arrived_and_is_answered_when_released(broker: MemoryBroker, clients: Clients) -> None:
    member, admin = await owning(clients), await clients.admin()
    broker.hold_commits()
    committing = asyncio.create_task(member.commit({OWN: Committed(1)}))
    await asyncio.sleep(0.01)
    assert await admin.committed(clients.group) == {OWN: Committed(1)}
    assert not committing.done()
    broker.release_commits()
    await committing


async def test_a_commit_held_too_long_is_an_error(broker: MemoryBroker, clients: Clients) -> None:
    member = await owning(clients)
    broker.hold_commits()
    with pytest.raises(BrokerError, match=r"did not answer a commit within 0\.05 s"):
        await member.commit({OWN: Committed(1)})


async def test_while_the_broker_is_away_every_answer_is_an_error_in_time(
    broker: MemoryBroker, clients: Clients
) -> None:
    member, admin, producer = await owning(clients), await clients.admin(), await clients.producer()
    await producer.publish_batch(OWN.topic, 0, [X])
    broker.away()
    assert not await member.poll(10, 0.01)
    waits: list[Awaitable[object]] = [
        member.commit({OWN: Committed(1)}), await producer.publish(OWN.topic, X),
        producer.publish_batch(OWN.topic, 0, [X]), member.end_offsets(frozenset([OWN])), admin.topics(),
        admin.committed(clients.group), admin.bounds([OWN]), clients.producer(), clients.reader(OWN.topic),
        clients.member(OWN.topic), clients.admin(),
    ]  # fmt: skip
    async with asyncio.timeout(1.0):
        for wait in waits:
            with pytest.raises(BrokerError, match=r"within 0\.05 s|in time"):
                await wait
    broker.back()
    assert len(await read(member, 1)) == 1
    assert await admin.bounds([OWN]) == {OWN: (0, 1)}
    assert await admin.committed(clients.group) == {}


async def test_when_the_broker_is_back_in_time_nothing_was_lost_and_the_order_kept() -> None:
    broker = MemoryBroker()
    async with Clients(broker, "t") as clients:
        member, producer = await owning(clients), await clients.producer()
        broker.away()
        acknowledgements = [await producer.publish(OWN.topic, Outgoing(None, b"%d" % i)) for i in range(3)]
        committing = asyncio.create_task(member.commit({OWN: Committed(0)}))
        polling = asyncio.create_task(member.poll(10, 10.0))
        await asyncio.sleep(0.01)
        assert not committing.done()
        broker.back()
        acknowledgements.append(await producer.publish(OWN.topic, Outgoing(None, b"3")))
        assert [(await acknowledgement).offset for acknowledgement in acknowledgements] == [0, 1, 2, 3]
        await committing
        records = [record for records in (await polling).values() for record in records]
        assert [record.value for record in records] == [b"0", b"1", b"2", b"3"]


async def test_while_the_broker_is_away_partitions_stay_where_they_are(broker: MemoryBroker, clients: Clients) -> None:
    topic, first, second = await clients.topic(2), Owner("first"), Owner("second")
    await clients.member(topic, first)
    await first.until_it_owns(2)
    member = await clients.member(topic, second)
    await second.until_it_owns(1)
    broker.away()
    await member.stop()
    await asyncio.sleep(0.01)
    broker.back()
    await asyncio.sleep(0.01)
    assert len(first.owns or ()) == 1
    broker.expire()
    await first.until_it_owns(2)


async def test_who_could_not_say_goodbye_is_missed_after_its_session_timeout(
    broker: MemoryBroker, clients: Clients
) -> None:
    topic, first, second = await clients.topic(2), Owner("first"), Owner("second")
    await clients.member(topic, first)
    member = await clients.member(topic, second, QUICK._replace(session_timeout_s=0.05))
    await second.until_it_owns(1)
    broker.away()
    await member.stop()
    broker.back()
    await first.until_it_owns(2)


async def test_offsets_without_a_record_are_passed_over(broker: MemoryBroker, clients: Clients) -> None:
    member, producer = await owning(clients), await clients.producer()
    await producer.publish_batch(OWN.topic, 0, [X, X])
    broker.gap(OWN, 3)
    await producer.publish_batch(OWN.topic, 0, [X])
    assert [record.offset for record in await read(member, 3)] == [0, 1, 5]
    broker.gap(OWN, 2)
    assert not await member.poll(10, 0.0)
    assert (member.positions(), dict(member.lag())) == ({OWN: 8}, {OWN: 0})
    member.seek(OWN, 3)
    assert [record.offset for record in await read(member, 1)] == [5]


async def test_a_log_that_was_cut_begins_later(broker: MemoryBroker, clients: Clients) -> None:
    member, producer = await owning(clients), await clients.producer()
    await producer.publish_batch(OWN.topic, 0, [X] * 6)
    assert len(await read(member, 1)) == 1
    broker.cut(OWN, 4)
    assert [record.offset for record in await read(member, 2)] == [4, 5]
    with pytest.raises(ValueError, match="from offset 4 to 6"):
        broker.cut(OWN, 3)


async def test_a_deleted_topic_takes_its_committed_offsets_with_it(broker: MemoryBroker, clients: Clients) -> None:
    owner, admin = Owner(), await clients.admin()
    member = await clients.member(await clients.topic(2), owner)
    own = await owner.until_it_owns(2)
    await member.commit({partition: Committed(0) for partition in own})
    broker.drop_topic(OWN.topic)
    await owner.until_it_owns(0)
    assert await admin.committed(clients.group) == {}
    assert not await member.poll(10, 0.0)
    with pytest.raises(BrokerError, match="somebody else"):
        await member.commit({OWN: Committed(0)})
    await clients.topic(2)
    await owner.until_it_owns(2)


async def test_what_an_owner_commits_when_its_topic_is_gone_is_refused(broker: MemoryBroker, clients: Clients) -> None:
    owner, refused = Owner(), asyncio.Event()
    member = await clients.member(await clients.topic(), owner)
    await owner.until_it_owns(1)

    async def commit() -> None:
        with pytest.raises(BrokerError, match=r"topic 't\.topic' is gone"):
            await member.commit({OWN: Committed(0)})
        refused.set()

    owner.on_revoked = commit
    broker.drop_topic(OWN.topic)
    await refused.wait()


async def test_three_hundred_turns_of_the_partitions_leave_no_task_behind(clients: Clients) -> None:
    topic, owner = await clients.topic(4), Owner()
    member = await clients.member(topic, owner)
    await owner.until_it_owns(4)
    tasks = len(asyncio.all_tasks())
    for _ in range(300):
        other = await clients.member(topic)
        await owner.until_it_owns(2)
        await other.stop()
        await owner.until_it_owns(4)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= tasks
    assert len(await member.poll(1, 0.0)) == 0
