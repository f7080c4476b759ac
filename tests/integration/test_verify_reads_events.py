"""What workers tell on the events topic is part of the history, each event once, and gaps are told of."""

from collections.abc import AsyncIterator

import pytest
from broker_clients import Clients
from made_topics import MODEL, MadeTopics, made_topics

from headrace.history import read_history
from headrace.verify_facts import History
from producer_sdk.broker import Outgoing
from producer_sdk.event_records import CommittedOffset, Event, StartedRequest


@pytest.fixture
async def made(clients: Clients) -> AsyncIterator[MadeTopics]:
    async with made_topics(clients) as made:
        yield made


async def history(made: MadeTopics) -> History:
    return await read_history(made.clients.broker, made.topics, MODEL)


def started(made: MadeTopics, id: str) -> tuple[StartedRequest, ...]:
    return (StartedRequest(id, made.topics.requests(MODEL, "async"), 0, 0, attempts=1),)


async def test_events_are_read_once_and_those_of_other_models_left_out(made: MadeTopics) -> None:
    event = Event("w", "1", 0, 5, started(made, "a"))
    await made.event(event)
    await made.event(event)
    await made.event(Event("w", "1", 1, 6, (StartedRequest("b", made.topics.requests("other", "async"), 0, 0),)))
    await made.publish(made.topics.events, 0, Outgoing(b"w", b"no event"))
    read = await history(made)
    assert [(each.id, each.worker, each.at_ms, each.attempts) for each in read.started] == [("a", "w", 5, 1)]
    assert read.silent == frozenset()


async def test_a_worker_that_lives_again_counts_anew(made: MadeTopics) -> None:
    await made.event(Event("w", "1", 7, 5, started(made, "a")))
    await made.event(Event("w", "2", 0, 6, started(made, "b")))
    assert [each.id for each in (await history(made)).started] == ["a", "b"]


async def test_a_gap_makes_a_worker_silent(made: MadeTopics) -> None:
    for number in (4, 6):
        await made.event(Event("w", "1", number, 5))
    read = await history(made)
    assert read.silent == {"w"}
    assert "worker w were not kept" in read.notes[0]


async def test_a_commit_before_its_outcome_is_found(made: MadeTopics) -> None:
    place = await made.request("a")
    await made.event(Event("w", "1", 0, 5_000, committed=(CommittedOffset(place.topic, 0, 1),)))
    await made.reply("a")
    await made.commit(1)
    report = await made.verified()
    assert (report.lost, [each.part for each in report.violations]) == (0, ["c"])
