"""Evidence is kept before its reply is told; what the reply index remembers is stored before it is published."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from msgspec.structs import replace
from replier_rig import Rig, rig_of
from worker_rig import until

from producer_sdk.broker import BrokerError, Topic
from producer_sdk.memory import MemoryBroker
from workers import publish
from workers.work import Outcome


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rig_of(MemoryBroker()) as rig:
        yield rig


async def test_evidence_is_acknowledged_before_its_reply_is_published_and_the_offset_finished_after_both(
    rig: Rig,
) -> None:
    rig.broker.hold_acknowledgements()
    rig.replier.put([rig.evident(b"bytes"), rig.outcome(partition=1)])
    await until(lambda: rig.in_memory("p.m.dead") == [b"bytes"] and rig.in_memory("p.replies") == [b"v" * 10])
    await asyncio.sleep(0.05)
    assert (rig.in_memory("p.replies"), rig.ledger.unfinished) == ([b"v" * 10], 2)
    rig.broker.release_acknowledgements()
    await until(lambda: rig.ledger.unfinished == 0)
    assert await rig.lies_in("p.replies") == {0: [b"told"], 1: [b"v" * 10]}
    assert await rig.lies_in("p.m.dead") == {0: [b"bytes"]}


async def test_while_evidence_cannot_be_kept_its_reply_waits_and_no_other_does(rig: Rig) -> None:
    rig.broker.fail_publish("p.m.dead", BrokerError("denied"), arrives=False)
    rig.replier.put([rig.evident(b"bytes")])
    await rig.put_all_but(1, *[rig.outcome(partition=0) for _ in range(3)])
    assert (rig.in_memory("p.replies"), rig.ledger.unfinished) == ([b"v" * 10] * 3, 1)
    rig.broker.fail_publish("p.m.dead", None)
    await until(lambda: rig.ledger.unfinished == 0)
    assert (rig.in_memory("p.m.dead"), rig.in_memory("p.replies")[-1]) == ([b"bytes"], b"told")


async def test_the_reply_of_kept_evidence_is_repeated_without_a_second_dead_letter(rig: Rig) -> None:
    rig.broker.fail_publish("p.replies", BrokerError("not now"), arrives=False)
    rig.replier.put([rig.evident(b"bytes")])
    await asyncio.sleep(0.25)
    rig.broker.fail_publish("p.replies", None)
    await until(lambda: rig.ledger.unfinished == 0)
    assert (rig.in_memory("p.m.dead"), rig.in_memory("p.replies")) == ([b"bytes"], [b"told"])


async def test_evidence_too_large_for_its_topic_is_shortened_and_the_reply_is_as_it_was(rig: Rig) -> None:
    await rig.put(rig.evident(b"x" * 5000))
    assert (rig.in_memory("p.m.dead"), rig.in_memory("p.replies")) == ([b"x" * 1024], [b"told"])
    assert rig.published[0].code == "INTERNAL"


@pytest.mark.parametrize("kind", ["dead_letter", "evident"])
async def test_a_dead_topic_that_is_missing_keeps_its_outcomes_until_it_is_there(rig: Rig, kind: str) -> None:
    del rig.broker._logs._topics["p.m.dead"]
    rig.replier.put([getattr(rig, kind)(b"bytes")])
    await asyncio.sleep(0.15)
    assert (rig.ledger.unfinished, rig.in_memory("p.m.results"), rig.in_memory("p.replies")) == (1, [], [])
    await rig.broker.admin().create_topics([Topic("p.m.dead", 1)])
    await until(lambda: rig.ledger.unfinished == 0)
    assert rig.in_memory("p.m.dead") == [b"bytes"]


async def test_the_bytes_of_evidence_count_until_it_is_acknowledged(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MAX_UNACKNOWLEDGED_BYTES", 100)
    rig.broker.hold_acknowledgements()
    rig.replier.put([rig.evident(b"x" * 100)])
    assert rig.replier.full
    rig.broker.release_acknowledgements()
    await until(lambda: not rig.replier.full)


class Index:
    """Notes which outcomes it was given, and what had been published then."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, ...]] = []
        self.published: list[int] = []
        self.lies: Callable[[], int] = lambda: 0

    async def store(self, outcomes: Sequence[Outcome]) -> None:
        self.stored.append(tuple(outcome.id for outcome in outcomes))
        self.published.append(self.lies())


async def test_outcomes_with_a_fingerprint_are_remembered_before_they_are_published_once_a_round() -> None:
    index = Index()
    async with rig_of(MemoryBroker(), index=index) as rig:
        index.lies = lambda: len(rig.in_memory("p.replies"))
        known = [replace(rig.outcome(), fingerprint=b"f") for _ in range(2)]
        await rig.put(known[0], rig.outcome(), known[1])
        await rig.put(rig.outcome())
    assert (index.stored, index.published) == ([("0", "1")], [0])
