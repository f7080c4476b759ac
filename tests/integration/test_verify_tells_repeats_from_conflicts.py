"""`headrace verify` tells a second outcome that readers may drop from one that contradicts the first."""

from collections.abc import AsyncIterator

import pytest
from broker_clients import Clients
from made_topics import OK, MadeTopics, made_topics

from producer_sdk.dead_letters import REDRIVEN_HEADER


@pytest.fixture
async def made(clients: Clients) -> AsyncIterator[MadeTopics]:
    async with made_topics(clients) as made:
        yield made


async def answer(made: MadeTopics, *codes: str) -> None:
    """A request with a reply of each code, all on its return address."""
    address = f"{made.topics.replies}:1"
    await made.request("a", reply_to=address)
    for code in codes:
        await made.reply("a", code, to=address)


async def test_two_codes_that_cannot_both_be_true_are_a_conflict(made: MadeTopics) -> None:
    await answer(made, OK, "INVALID_REQUEST")
    report = await made.verified()
    assert (report.conflicting, report.repeats, report.kept) == (1, 0, False)
    topic = made.topics.replies
    assert report.conflicting_requests[0].id == "a"
    assert report.conflicting_requests[0].replies == (f"OK at {topic}:1:0", f"INVALID_REQUEST at {topic}:1:1")


async def test_a_conflict_shows_across_topics(made: MadeTopics) -> None:
    await answer(made, OK)
    await made.reply("a", "INTERNAL")
    assert (await made.verified()).conflicting == 1


async def test_repeats_of_every_allowed_kind_are_counted_and_excused(made: MadeTopics) -> None:
    await answer(made, OK, OK, "DEADLINE_EXCEEDED", "CANCELLED", "RUNNER_CRASHED", "RUNNER_CRASHED")
    report = await made.verified()
    assert (report.conflicting, report.repeats, report.kept) == (0, 5, True)
    assert report.violations == ()


async def test_excused_codes_alone_are_repeats(made: MadeTopics) -> None:
    await answer(made, "CANCELLED", "DEADLINE_EXCEEDED")
    report = await made.verified()
    assert (report.conflicting, report.repeats) == (0, 1)


async def test_a_request_that_was_published_twice_is_accepted_twice_and_repeats(made: MadeTopics) -> None:
    await answer(made, OK, OK)
    await made.request("a", lane="interactive")
    report = await made.verified()
    assert (report.accepted, report.answered, report.repeats, report.conflicting) == (2, 2, 1, 0)


async def test_each_of_two_requests_with_one_id_may_have_an_outcome_of_its_own(made: MadeTopics) -> None:
    await answer(made, "INTERNAL", OK)
    await made.request("a", reply_to=f"{made.topics.replies}:1")
    report = await made.verified()
    assert (report.accepted, report.answered, report.repeats, report.conflicting) == (2, 2, 0, 0)


async def test_more_codes_than_requests_are_a_conflict(made: MadeTopics) -> None:
    await answer(made, "INTERNAL", OK, "INVALID_REQUEST", "CANCELLED")
    await made.request("a", reply_to=f"{made.topics.replies}:1")
    report = await made.verified()
    assert (report.conflicting, report.repeats, report.kept) == (1, 1, False)


async def test_a_code_that_came_again_is_a_repeat_also_of_a_request_that_was_tried_again(made: MadeTopics) -> None:
    await answer(made, "INTERNAL", OK, OK)
    await made.request("a", reply_to=f"{made.topics.replies}:1")
    report = await made.verified()
    assert (report.conflicting, report.repeats) == (0, 1)


async def test_a_record_of_the_retry_topic_is_no_request_of_its_own(made: MadeTopics) -> None:
    await made.retry(await made.request("a"), "a")
    await made.reply("a", "INTERNAL")
    await made.reply("a", OK)
    assert (await made.verified()).conflicting == 1


@pytest.mark.parametrize("times", [1, 2])
async def test_what_a_request_died_of_does_not_contradict_what_came_of_it_when_redriven(
    made: MadeTopics, times: int
) -> None:
    codes = ["OUT_OF_MEMORY", "INTERNAL", OK][-times - 1 :]
    await made.dead(await made.request("a"), codes[0])
    for _ in range(times):
        await made.request("a", headers=[(REDRIVEN_HEADER, b"place")])
    for code in codes:
        await made.reply("a", code)
    report = await made.verified()
    assert (report.accepted, report.conflicting, report.repeats) == (times + 1, 0, 0)


async def test_of_a_redriven_request_the_first_record_may_be_deleted(made: MadeTopics) -> None:
    await made.request("a", headers=[(REDRIVEN_HEADER, b"place")])
    for code in ("OUT_OF_MEMORY", OK):
        await made.reply("a", code)
    assert (await made.verified()).conflicting == 0
    await made.reply("a", "INTERNAL")
    assert (await made.verified()).conflicting == 1


async def test_a_request_that_was_not_redriven_has_no_such_excuse(made: MadeTopics) -> None:
    await made.dead(await made.request("a"), "OUT_OF_MEMORY")
    await made.reply("a", "OUT_OF_MEMORY")
    await made.reply("a", OK)
    assert (await made.verified()).conflicting == 1
