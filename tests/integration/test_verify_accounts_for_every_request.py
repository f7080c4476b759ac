"""`headrace verify` accounts for every request from topics alone: answered, dead, waiting, lost or beyond knowledge."""

from collections.abc import AsyncIterator

import pytest
from broker_clients import Clients
from made_topics import MODEL, MadeTopics, made_topics

from headrace.checker import Lost, Report
from headrace.history import read_history
from producer_sdk.broker import Topic
from producer_sdk.errors import InvalidRequest, UnknownModel
from producer_sdk.topics import Topics


@pytest.fixture
async def made(clients: Clients) -> AsyncIterator[MadeTopics]:
    async with made_topics(clients) as made:
        yield made


def counts(report: Report) -> tuple[int, int, int, int, int]:
    return report.accepted, report.answered, report.dead, report.waiting, report.lost


async def test_a_request_committed_without_an_outcome_is_lost_and_named(made: MadeTopics) -> None:
    place = await made.request("a")
    await made.request("b")
    await made.reply("b")
    await made.commit(2)
    report = await made.verified()
    assert counts(report) == (2, 1, 0, 0, 1)
    assert report.lost_requests == (Lost("a", place.topic, 0, 0),)
    assert [(each.part, "request a at" in each.sentence) for each in report.violations] == [("a", True)]
    assert not report.kept


async def test_a_request_that_only_the_map_says_is_completed_is_lost_too(made: MadeTopics) -> None:
    for id in ("a", "b", "c"):
        await made.request(id)
    await made.reply("c")
    await made.commit(0, completed={0: False, 1: True, 2: True})
    report = await made.verified()
    assert counts(report) == (3, 1, 0, 1, 1)
    assert [each.id for each in report.lost_requests] == ["b"]


async def test_what_is_not_committed_waits(made: MadeTopics) -> None:
    await made.request("a")
    await made.request("b", lane="bulk", partition=1)
    await made.reply("a")
    assert counts(await made.verified()) == (2, 1, 0, 1, 0)


async def test_replies_are_found_at_every_return_address(made: MadeTopics) -> None:
    own = f"{made.topics.prefix}.mine"
    await (await made.clients.admin()).create_topics([Topic(own, 2)])
    addresses = {"a": None, "b": f"{made.topics.replies}:1", "c": f"{own}:1", "d": f"{made.topics.prefix}.missing"}
    for id, reply_to in addresses.items():
        await made.request(id, reply_to=reply_to)
    for id in ("a", "d"):  # what cannot go to its address goes to the results topic
        await made.reply(id)
    await made.reply("b", to=addresses["b"])
    await made.reply("c", to=addresses["c"])
    await made.commit(4)
    assert counts(await made.verified()) == (4, 4, 0, 0, 0)


async def test_a_reply_of_another_model_is_no_outcome(made: MadeTopics) -> None:
    await made.request("a", reply_to=f"{made.topics.replies}:0")
    await made.reply("a", to=f"{made.topics.replies}:0", model="other")
    await made.commit(1)
    assert counts(await made.verified()) == (1, 0, 0, 0, 1)


async def test_a_request_without_an_id_is_known_by_its_place(made: MadeTopics) -> None:
    place = await made.request(None)
    await made.reply(f"{place.topic}:0:0")
    await made.commit(1)
    assert counts(await made.verified()) == (1, 1, 0, 0, 0)


async def test_an_undecodable_record_ends_with_its_dead_letter(made: MadeTopics) -> None:
    await made.dead(await made.garbage(), "INVALID_REQUEST")
    await made.commit(1)
    report = await made.verified()
    assert counts(report) == (1, 0, 1, 0, 0)
    assert report.violations == ()


async def test_an_undecodable_record_without_a_dead_letter_is_lost(made: MadeTopics) -> None:
    await made.dead(await made.garbage(), "INVALID_REQUEST")
    await made.garbage()
    await made.commit(2)
    report = await made.verified()
    assert counts(report) == (2, 0, 1, 0, 1)
    assert report.lost_requests[0].id == f"{made.topics.requests(MODEL, 'async')}:0:1"


async def test_a_dead_letter_beside_a_reply_is_one_outcome(made: MadeTopics) -> None:
    await made.dead(await made.request("a"), "RUNNER_CRASHED")
    await made.reply("a", "RUNNER_CRASHED")
    await made.commit(1)
    report = await made.verified()
    assert counts(report) == (1, 1, 1, 0, 0)
    assert (report.repeats, report.conflicting, report.violations) == (0, 0, ())


async def test_a_dead_letter_whose_sender_was_never_told_breaks_the_promise(made: MadeTopics) -> None:
    await made.dead(await made.request("a"), "RUNNER_CRASHED")
    await made.commit(1)
    report = await made.verified()
    assert counts(report) == (1, 0, 1, 0, 0)
    assert [each.part for each in report.violations] == ["a"]


async def test_a_request_that_was_moved_to_the_retry_topic_waits_there(made: MadeTopics) -> None:
    await made.retry(await made.request("a"), "a")
    await made.commit(1)
    assert counts(await made.verified()) == (1, 0, 0, 1, 0)


async def test_a_retried_request_ends_under_its_first_id(made: MadeTopics) -> None:
    place = await made.request(None)
    await made.retry(place, None)
    await made.reply(f"{place.topic}:0:0")
    await made.commit(1)
    await made.commit(1, topic=made.topics.retry(MODEL))
    assert counts(await made.verified()) == (1, 1, 0, 0, 0)


async def test_a_retried_request_that_is_finished_without_an_outcome_is_lost(made: MadeTopics) -> None:
    await made.retry(await made.request("a"), "a")
    await made.commit(1)
    await made.commit(1, topic=made.topics.retry(MODEL))
    report = await made.verified()
    assert counts(report) == (1, 0, 0, 0, 1)
    assert report.lost_requests[0].topic == made.topics.requests(MODEL, "async")


async def test_a_commit_past_the_end_of_a_topic_made_anew_convicts_nobody(made: MadeTopics) -> None:
    await made.request("a")
    await made.commit(7)
    report = await made.verified()
    assert counts(report) == (1, 0, 0, 1, 0)
    assert "made anew" in report.notes[0]


async def test_a_model_without_topics_is_unknown(made: MadeTopics) -> None:
    with pytest.raises(UnknownModel, match="no request topic of a model 'other'"):
        await read_history(made.clients.broker, made.topics, "other")


async def test_a_name_that_no_model_has_is_refused(clients: Clients) -> None:
    with pytest.raises(InvalidRequest):
        await read_history(clients.broker, Topics(clients.prefix), "no.dots")
