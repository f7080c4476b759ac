"""An owner is told where reading begins; where that cannot be, reading begins at the oldest record."""

from broker_clients import Clients, Owner, read

from producer_sdk.broker import Committed, Consumer, Outgoing, Topic, TopicPartition


async def filled(clients: Clients, records: int) -> TopicPartition:
    topic, producer = await clients.topic(), await clients.producer()
    await producer.publish_batch(topic, 0, [Outgoing(None, b"%d" % number) for number in range(records)])
    return TopicPartition(topic, 0)


async def restarted(clients: Clients, own: TopicPartition, committed: Committed) -> tuple[Consumer, Owner]:
    """A member that begins after another has committed that and left."""
    owner = Owner()
    member = await clients.member(own.topic, owner)
    await owner.until_it_owns(1)
    await member.commit({own: committed})
    await member.stop()
    next_owner = Owner()
    return await clients.member(own.topic, next_owner), next_owner


async def test_the_owner_is_told_what_is_committed_and_the_text_beside_it(clients: Clients) -> None:
    own = await filled(clients, 5)
    member, owner = await restarted(clients, own, Committed(3, "täxt"))
    await owner.until_it_owns(1)
    assert owner.starts == {own: Committed(3, "täxt")}
    assert [record.offset for record in await read(member, 2)] == [3, 4]


async def test_where_nothing_is_committed_the_owner_is_told_the_oldest_record(clients: Clients) -> None:
    own, owner = await filled(clients, 5), Owner()
    await clients.cut(own, 2)
    member = await clients.member(own.topic, owner)
    await owner.until_it_owns(1)
    assert owner.starts == {own: Committed(2)}
    assert [record.offset for record in await read(member, 3)] == [2, 3, 4]


async def test_after_records_that_retention_removed_reading_goes_on_with_the_oldest(clients: Clients) -> None:
    own = await filled(clients, 6)
    await clients.cut(own, 4)
    member, owner = await restarted(clients, own, Committed(1, "text"))
    await owner.until_it_owns(1)
    assert [record.offset for record in await read(member, 2)] == [4, 5]
    assert owner.starts == {own: Committed(1, "text")}
    assert member.positions() == {own: 6}


async def test_an_offset_beyond_the_end_leads_back_to_the_oldest_record(clients: Clients) -> None:
    own = await filled(clients, 3)
    member, owner = await restarted(clients, own, Committed(100, "text"))
    await owner.until_it_owns(1)
    assert [record.offset for record in await read(member, 3)] == [0, 1, 2]
    assert owner.starts == {own: Committed(100, "text")}


async def test_a_topic_made_anew_is_read_from_its_beginning(clients: Clients) -> None:
    own, owner, producer = await filled(clients, 5), Owner(), await clients.producer()
    member = await clients.member(own.topic, owner)
    await read(member, 5)
    await clients.drop(own.topic)
    await (await clients.admin()).create_topics([Topic(own.topic, 1)])
    await producer.publish_batch(own.topic, 0, [Outgoing(None, b"new") for _ in range(3)])
    assert [(record.offset, record.value) for record in await read(member, 3)] == [(i, b"new") for i in range(3)]
    await owner.until_it_owns(1)
    await member.commit({own: Committed(3)})
