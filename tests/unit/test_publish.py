"""An outcome is published until it is acknowledged, and only then is its offset finished."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from replier_rig import Rig, rig_of
from worker_rig import until

from producer_sdk.broker import BrokerError, Topic
from producer_sdk.errors import Code
from producer_sdk.memory import MemoryBroker
from producer_sdk.topics import Lane, ReplyTo
from workers import publish
from workers.publish import ENOUGH, ENOUGH_OF_MANY, LINGER_S


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rig_of(MemoryBroker()) as rig:
        yield rig


async def test_outcomes_go_to_the_partition_asked_for_else_to_one_by_their_own_partition(rig: Rig) -> None:
    await rig.put(rig.outcome(partition=2), rig.outcome(partition=2, size=11), rig.outcome())
    assert await rig.lies_in("p.replies") == {2: [b"v" * 10, b"v" * 11], 5 % 4: [b"v" * 10]}


async def test_an_offset_is_unfinished_until_the_acknowledgement(rig: Rig) -> None:
    await rig.put(rig.outcome())
    rig.broker.hold_acknowledgements()
    rig.replier.put([rig.outcome()])
    await asyncio.sleep(0.05)
    assert (rig.ledger.lowest_unfinished, rig.replier.unacknowledged, len(rig.published)) == (1, 1, 1)
    rig.broker.release_acknowledgements()
    await until(lambda: len(rig.published) == 2)
    assert rig.ledger.lowest_unfinished == 2


async def test_a_refused_publish_is_repeated_until_it_is_acknowledged(rig: Rig) -> None:
    rig.broker.fail_publish("p.replies", BrokerError("not now"), arrives=False)
    rig.replier.put([rig.outcome(partition=0)])
    await asyncio.sleep(0.15)
    assert rig.ledger.unfinished == 1
    rig.broker.fail_publish("p.replies", None)
    await until(lambda: len(rig.published) == 1)
    assert await rig.lies_in("p.replies") == {0: [b"v" * 10]}


async def test_a_topic_that_does_not_answer_holds_up_nobody_else(rig: Rig) -> None:
    rig.broker.fail_publish("p.small", BrokerError("not now"), arrives=False)
    rig.replier.put([rig.outcome("p.small")])
    for _ in range(3):
        rig.replier.put([rig.outcome(partition=1)])
        await asyncio.sleep(0.02)
    await until(lambda: len(rig.published) == 3)
    assert rig.replier.unacknowledged == 1
    rig.broker.fail_publish("p.small", None)
    await until(lambda: rig.replier.unacknowledged == 0)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (("p.none", None), "reply_to 'p.none' cannot be reached: there is no such topic"),
        (("p.replies", 4), "reply_to 'p.replies:4' cannot be reached: it has 4 partitions"),
        (("p.m.results", 99), "reply_to 'p.m.results:99' cannot be reached: it has 2 partitions"),
    ],
)
async def test_an_address_that_is_not_there_is_answered_on_the_results_topic(
    rig: Rig, address: tuple[str, int | None], why: str
) -> None:
    await rig.put(rig.outcome(*address), rig.outcome())
    assert await rig.errors_in("p.m.results") == [why]
    assert sorted(each.code for each in rig.published) == ["INVALID_REQUEST", "OK"]
    assert "p.none" not in await rig.broker.admin().topics()


async def test_partitions_added_to_a_topic_later_are_found(rig: Rig) -> None:
    await rig.put(rig.outcome())
    await rig.broker.admin().create_topics([Topic("p.late", 1)])
    await rig.put(rig.outcome("p.late", 0))
    assert await rig.lies_in("p.late") == {0: [b"v" * 10]}


async def test_the_broker_is_asked_once_a_round_for_however_many_unknown_topics(rig: Rig) -> None:
    looks = 0
    destinations = rig.replier._replies._destinations
    look = destinations.look

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await look()

    destinations.look = counted  # type: ignore[method-assign]
    await rig.put(*[rig.outcome(f"p.none-{n}") for n in range(50)])
    assert looks == 1


async def test_a_record_too_large_for_its_topic_is_found_and_its_mates_are_published(rig: Rig) -> None:
    await rig.put(*[rig.outcome("p.small", size=2000 if n in (3, 11) else 9) for n in range(16)])
    assert sorted(each.code for each in rig.published) == ["OK"] * 14 + ["PAYLOAD_TOO_LARGE"] * 2
    errors = await rig.errors_in("p.small")
    assert len(errors) == 2
    assert all("at most 600" in message for message in errors)


async def test_an_error_reply_too_large_for_its_topic_goes_to_the_results_topic(rig: Rig) -> None:
    await rig.put(rig.outcome("p.tiny", size=500))
    assert len(await rig.errors_in("p.m.results")) == 1
    assert await rig.lies_in("p.tiny") == {}


async def test_a_dead_letter_too_large_for_its_topic_keeps_its_facts(rig: Rig) -> None:
    await rig.put(rig.dead_letter(b"\xc1" * 5000))
    assert await rig.lies_in("p.m.dead") == {0: [b"\xc1" * 1024]}


async def test_outcomes_for_a_topic_that_was_deleted_meanwhile_go_to_the_results_topic(rig: Rig) -> None:
    await rig.put(rig.outcome("p.small"))
    rig.broker.fail_publish("p.small", BrokerError("no such topic"), arrives=False)
    del rig.broker._logs._topics["p.small"]
    await rig.put(rig.outcome("p.small"), rig.outcome("p.small"))
    assert len(await rig.errors_in("p.m.results")) == 2


async def test_a_results_topic_that_is_missing_keeps_its_outcomes_until_it_is_there(rig: Rig) -> None:
    del rig.broker._logs._topics["p.m.results"]
    rig.replier.put([rig.outcome("p.m.results")])
    await asyncio.sleep(0.15)
    assert rig.ledger.unfinished == 1
    await rig.broker.admin().create_topics([Topic("p.m.results", 2)])
    await until(lambda: len(rig.published) == 1)
    assert rig.published[0].code == "OK"


async def test_it_is_full_by_outcomes_and_by_bytes_until_they_are_acknowledged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "MAX_UNACKNOWLEDGED", 3)
    monkeypatch.setattr(publish, "MAX_UNACKNOWLEDGED_BYTES", 100)
    rig.broker.hold_acknowledgements()
    rig.replier.put([rig.outcome(), rig.outcome()])
    await asyncio.sleep(0.02)
    assert not rig.replier.full
    rig.replier.put([rig.outcome()])
    assert rig.replier.full
    rig.broker.release_acknowledgements()
    await until(lambda: rig.replier.unacknowledged == 0)
    rig.replier.put([rig.outcome(size=100)])
    assert rig.replier.full
    await until(lambda: not rig.replier.full)


async def test_while_a_batch_runs_and_many_wait_its_outcomes_go_out_together_with_those_that_nobody_waits_for(
    rig: Rig,
) -> None:
    rig.running, rig.behind = 1, ENOUGH
    rig.replier.put([rig.outcome()])
    await asyncio.sleep(LINGER_S / 4)
    assert rig.published == []
    rig.running = 0
    await rig.put(rig.outcome())
    assert len(rig.published) == 2


async def test_while_few_wait_outcomes_do_not_linger(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    rig.running, rig.behind = 1, ENOUGH - 1
    await rig.put(rig.outcome())
    assert len(rig.published) == 1


async def test_outcomes_linger_for_a_moment_only_however_long_a_batch_runs(rig: Rig) -> None:
    rig.running, rig.behind = 1, ENOUGH
    await rig.put(rig.outcome())
    assert len(rig.published) == 1


async def test_outcomes_linger_for_a_part_of_what_the_last_of_them_has_taken_anyway(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.publish.LONGEST_LINGER_S", 60.0)
    rig.running, rig.behind, now = 1, ENOUGH, time.monotonic()
    rig.replier.put([replace(rig.outcome(), arrived=now - 1000)])
    await asyncio.sleep(LINGER_S * 5)
    assert rig.published == []
    await rig.put(replace(rig.outcome(), arrived=now))
    assert len(rig.published) == 2


@pytest.mark.parametrize(("lane", "count"), [(Lane.INTERACTIVE, 1), (Lane.BULK, ENOUGH)])
async def test_an_interactive_outcome_or_enough_of_others_never_linger(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lane: Lane, count: int
) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    rig.running, rig.behind = 1, ENOUGH
    await rig.put(*(rig.outcome(lane=lane) for _ in range(count)))
    assert len(rig.published) == count


async def test_a_flood_that_is_refused_goes_out_together_also_in_the_interactive_lane(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    rig.running = 1
    refused = replace(rig.outcome(lane=Lane.INTERACTIVE), code=Code.QUOTA_EXCEEDED)
    rig.replier.put([refused])
    await asyncio.sleep(0.02)
    assert rig.published == []
    await rig.put(rig.outcome(lane=Lane.INTERACTIVE))
    assert len(rig.published) == 2


async def test_while_many_requests_wait_more_outcomes_go_out_together(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    rig.running, rig.behind = 1, 1000
    rig.replier.put([rig.outcome() for _ in range(ENOUGH_OF_MANY - 1)])
    await asyncio.sleep(0.02)
    assert rig.published == []
    await rig.put(rig.outcome())


async def test_outcomes_are_never_held_back_for_more_than_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    rig.running, rig.behind = 1, ENOUGH + 1
    await rig.put(*(rig.outcome() for _ in range(ENOUGH + 1)))


async def test_an_address_that_was_redirected_is_looked_at_for_each_of_its_outcomes(rig: Rig) -> None:
    address = ReplyTo("p.none", None)
    await rig.put(*[replace(rig.outcome(), address=address) for _ in range(3)])
    assert len(await rig.errors_in("p.m.results")) == 3
