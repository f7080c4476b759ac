"""A request whose outcome may have been deleted is beyond knowledge: `headrace verify` never calls it lost."""

import time
from collections.abc import AsyncIterator

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from broker_clients import Clients
from made_topics import MODEL, MadeTopics, made_topics

from producer_sdk.broker import Placed, TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.testing import MemoryBroker

HOUR_MS = 3600 * 1000


def hours_ago(hours: float) -> int:
    return round(time.time() * 1000 - hours * HOUR_MS)


@pytest.fixture
async def made(clients: Clients) -> AsyncIterator[MadeTopics]:
    async with made_topics(clients) as made:
        yield made


async def delete_up_to(made: MadeTopics, place: Placed) -> None:
    """The records of a partition up to a place are deleted, as retention does."""
    broker = made.clients.broker
    if isinstance(broker, MemoryBroker):
        broker.cut(TopicPartition(place.topic, place.partition), place.offset + 1)
        return
    assert isinstance(broker, KafkaBroker)
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    await admin.delete_records({KafkaPartition(*place[:2]): RecordsToDelete(place.offset + 1)})
    await admin.close()


async def test_older_than_the_oldest_reply_that_is_kept_is_unverifiable(made: MadeTopics) -> None:
    await made.request("old", timestamp_ms=hours_ago(2))
    await made.request("new")
    await delete_up_to(made, await made.reply("old"))
    await made.reply("new")
    await made.commit(2)
    report = await made.verified()
    assert (report.lost, report.unverifiable, report.kept) == (0, 1, True)
    assert [each.id for each in report.unverifiable_requests] == ["old"]
    assert "cannot be known" in report.notes[-1]


async def test_younger_than_the_oldest_reply_that_is_kept_is_lost(made: MadeTopics) -> None:
    await delete_up_to(made, await made.reply("another"))
    await made.reply("yet another")
    await made.request("a", timestamp_ms=hours_ago(-0.1))
    await made.commit(1)
    report = await made.verified()
    assert (report.lost, report.unverifiable) == (1, 0)


async def test_what_is_deleted_elsewhere_excuses_nothing(made: MadeTopics) -> None:
    await delete_up_to(made, await made.reply("another", to=f"{made.topics.replies}:0"))
    await made.request("a", timestamp_ms=hours_ago(2), reply_to=f"{made.topics.replies}:1")
    await made.commit(1)
    assert (await made.verified()).lost == 1


async def test_without_a_return_address_the_partition_of_the_request_says_where_its_outcome_was(
    made: MadeTopics,
) -> None:
    await delete_up_to(made, await made.reply("another", to=f"{made.topics.results(MODEL)}:1"))
    for partition in (0, 1):
        await made.request(f"at {partition}", partition=partition, timestamp_ms=hours_ago(2))
        await made.commit(1, partition=partition)
    report = await made.verified()
    assert [each.partition for each in report.lost_requests] == [0]
    assert [each.partition for each in report.unverifiable_requests] == [1]


async def test_a_request_whose_first_record_is_deleted_is_known_by_its_record_on_the_retry_topic(
    made: MadeTopics,
) -> None:
    place = await made.request(None)
    await made.retry(place, None)
    await delete_up_to(made, place)
    waiting = await made.verified()
    await made.reply(f"{place.topic}:0:0")
    answered = await made.verified()
    assert (waiting.accepted, waiting.waiting) == (1, 1)
    assert (answered.accepted, answered.answered) == (1, 1)


async def test_where_all_replies_are_deleted_requests_of_the_last_hour_are_judged(made: MadeTopics) -> None:
    await delete_up_to(made, await made.reply("another"))
    await made.request("old", timestamp_ms=hours_ago(2))
    await made.request("new")
    await made.commit(2)
    report = await made.verified()
    assert (report.lost, report.unverifiable) == (1, 1)


async def test_requests_that_were_deleted_before_they_were_finished_are_told_of(made: MadeTopics) -> None:
    await made.request("a")
    await made.commit(1)
    await made.request("b")
    await delete_up_to(made, await made.request("c"))
    report = await made.verified()
    assert (report.accepted, report.kept) == (0, True)
    assert f"the records 1 to 2 of {made.topics.requests(MODEL, 'async')}:0 were deleted" in report.notes[0]
