"""A dead letter that is re-driven goes back whole, once, to where it came from; every other stays, for a reason."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from broker_clients import Clients, read

from headrace.dead_filter import check_codes, parse_where
from headrace.dead_judge import Reason, Wishes
from headrace.dead_reader import Letter, open_letters
from headrace.dead_redrive import Choice, Redrive, Tally, WhyNot
from headrace.failure import UsageError
from producer_sdk.broker import Broker, BrokerError, Outgoing, Record, Topic, TopicPartition
from producer_sdk.dead_letters import Facts, headers
from producer_sdk.errors import InvalidRequest, UnknownModel
from producer_sdk.memory import MemoryBroker
from producer_sdk.tensors import Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Request, encode_request

INPUTS = {"x": Tensor.from_array(np.zeros((1, 2), np.float32))}
EVERY = parse_where((), 0.0).wants


def packed(id: str) -> bytes:
    return encode_request(Request(id, INPUTS))


class Rig:
    """A model's dead topic of two partitions, and its request topics of three."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.topics = Topics(clients.prefix)
        self.told: list[tuple[str, WhyNot]] = []

    async def start(self) -> None:
        self.admin = await self.clients.admin()
        self.producer = await self.clients.producer()
        dead = Topic(self.topics.dead("m"), 2)
        await self.admin.create_topics([dead, *(Topic(name, 3) for name in self.topics.lanes("m"))])

    async def bury(self, *values: bytes, partition: int = 0, original: Any = (), **facts: Any) -> None:
        """Write dead letters of records with these values, which lay one behind the other."""
        known = {"topic": self.topics.requests("m", "async"), "partition": 1, "code": "INTERNAL"} | facts
        letters = [
            Outgoing(b"key", value, headers(Facts(**({"offset": 100 + n} | known)), original))
            for n, value in enumerate(values)
        ]
        await self.producer.publish_batch(self.topics.dead("m"), partition, letters)

    async def redrive(self, choice: Choice | None = None, *, rate: float | None = None, dry_run: bool = False,
                      **wishes: Any) -> Tally:  # fmt: skip
        self.told = []
        async with open_letters(self.clients.broker, self.topics, "m") as dead:
            await dead.read_notes()
            run = Redrive(dead, self.producer, self.topics.lanes("m"), await self.admin.topics(), Wishes(**wishes),
                          self._tell, rate=rate, dry_run=dry_run)  # fmt: skip
            await run.run(choice or Choice(EVERY))
            return run.tally

    def _tell(self, letter: Letter, why_not: WhyNot) -> None:
        self.told.append((letter.place, why_not))

    async def published(self, count: int, lane: str = "async") -> Sequence[Record]:
        """The records of a request topic, which must be so many."""
        partitions = frozenset(TopicPartition(self.topics.requests("m", lane), n) for n in range(3))
        reader = await self.clients.reader(self.topics.requests("m", lane), 0, 1, 2)
        records = await read(reader, count) if count else []
        assert sum((await reader.end_offsets(partitions)).values()) == count
        return records

    async def newest(self, limit: int, *conditions: str) -> list[tuple[str, bool]]:
        async with open_letters(self.clients.broker, self.topics, "m") as dead:
            found = await dead.newest(limit, parse_where(conditions, time.time()).wants)
            return [(letter.place, dead.was_redriven(letter)) for letter in found]


@pytest.fixture
async def rig(clients: Clients) -> Rig:
    rig = Rig(clients)
    await rig.start()
    return rig


async def test_key_bytes_and_headers_come_back_as_they_were_on_the_partition_that_they_were_on(rig: Rig) -> None:
    await rig.bury(packed("a"), original=[("a", b"b"), ("a", b"\xff")])
    assert (await rig.redrive()).published == 1
    (record,) = await rig.published(1)
    assert (record.partition, record.key, record.value) == (1, b"key", packed("a"))
    assert list(record.headers)[:2] == [("a", b"b"), ("a", b"\xff")]
    marks = {"headrace-redriven": f"{rig.topics.dead('m')}:0:0".encode(), "headrace-redrives": b"1"}
    assert dict(record.headers) == {"a": b"\xff"} | marks


async def test_a_second_re_drive_publishes_only_what_has_come_since_and_says_so(rig: Rig) -> None:
    await rig.bury(packed("a"), packed("b"))
    await rig.bury(packed("c"), partition=1, offset=5)
    assert (await rig.redrive()).published == 3
    await rig.bury(packed("d"), offset=9)
    second = await rig.redrive()
    assert (second.published, second.skipped) == (1, {Reason.REDRIVEN: 3})
    assert len(await rig.published(4)) == 4
    assert sorted(await rig.newest(9)) == [("0:0", True), ("0:1", True), ("0:3", True), ("1:0", True)]
    assert (await rig.redrive(again=True)).published == 4


async def test_an_unreadable_record_is_never_sent_round_again(rig: Rig) -> None:
    await rig.bury(b"\xc1junk", packed("a"), b"")
    for published in (1, 0):
        tally = await rig.redrive()
        assert (tally.published, tally.skipped[Reason.UNREADABLE]) == (published, 2)
    assert [record.value for record in await rig.published(1)] == [packed("a")]


async def test_two_letters_of_one_record_are_published_once(rig: Rig) -> None:
    await rig.bury(packed("a"), packed("a"), offset=7, timestamp_ms=1000)
    await rig.bury(packed("a"), offset=7, timestamp_ms=2000)  # of a topic that was made anew
    tally = await rig.redrive()
    assert (tally.published, tally.skipped) == (2, {Reason.TWIN: 1})
    assert (await rig.redrive()).published == 0


async def test_a_dry_run_says_the_same_and_changes_nothing(rig: Rig) -> None:
    await rig.bury(packed("a"), b"\xc1")
    tally = await rig.redrive(dry_run=True)
    assert (tally.published, tally.skipped) == (1, {Reason.UNREADABLE: 1})
    assert await rig.published(0) == []
    assert await rig.newest(9) == [("0:0", False), ("0:1", False)]


async def test_only_the_chosen_ones_go(rig: Rig) -> None:
    await rig.bury(*(packed(f"a{n}") for n in range(4)), code="OUT_OF_MEMORY")
    await rig.bury(packed("b"), partition=1)
    where = Choice(parse_where(["code=INTERNAL"], 0.0).wants)
    places = Choice(EVERY, frozenset([(0, 2), (0, 1), (1, 7)]))
    assert [(await rig.redrive(choice)).published for choice in (where, places, Choice(EVERY, None, 1))] == [1, 2, 1]
    assert {record.value for record in await rig.published(4)} == {packed(id) for id in ("b", "a1", "a2", "a0")}
    assert rig.told == [("0:0", None)]


async def test_a_record_whose_topic_or_partition_is_gone_fails_alone(rig: Rig) -> None:
    await rig.bury(packed("a"), partition=0, offset=1)
    await rig.bury(packed("b"), partition=1, offset=2)
    async with open_letters(rig.clients.broker, rig.topics, "m") as dead:
        lanes = {rig.topics.requests("m", "async"): 1}
        run = Redrive(dead, rig.producer, lanes, lanes, Wishes(), rig._tell)
        await run.run(Choice(EVERY))
        assert (run.tally.published, run.tally.failed) == (2, 0)  # by its key, on a partition that there is
        run = Redrive(dead, rig.producer, lanes, {}, Wishes(again=True), rig._tell)
        await run.run(Choice(EVERY))
        assert (run.tally.published, run.tally.failed, run.tally.stopped) == (0, 2, "")


async def test_the_rate_is_kept(rig: Rig) -> None:
    await rig.bury(*(packed(str(n)) for n in range(9)))
    began = time.monotonic()
    assert (await rig.redrive(rate=4.0)).published == 9
    assert time.monotonic() - began >= 8 / 4.0


async def test_the_newest_letters_are_found_however_many_notes_and_others_lie_among_them(rig: Rig) -> None:
    await rig.bury(packed("old"), code="OUT_OF_MEMORY", partition=1, offset=1)
    await rig.bury(*(packed(str(n)) for n in range(300)))
    await rig.redrive()
    assert await rig.newest(1, "code=OUT_OF_MEMORY") == [("1:0", True)]
    assert await rig.newest(2) == [("0:298", True), ("0:299", True)]
    assert await rig.newest(1, "id=7") == [("0:7", True)]
    async with open_letters(rig.clients.broker, rig.topics, "m") as dead:
        found = [await dead.at(0, 7), await dead.at(0, 300), await dead.at(7, 0), await dead.at(0, 10**9)]
    assert [letter and letter.id for letter in found] == ["7", None, None, None]


async def test_a_broker_that_takes_no_more_ends_the_re_drive_and_what_arrived_is_remembered(prefix: str) -> None:
    broker = MemoryBroker()
    async with Clients(broker, prefix) as clients:
        rig = Rig(clients)
        await rig.start()
        await rig.bury(packed("a"), packed("b"), packed("c"))
        assert (await rig.redrive(Choice(EVERY, None, 1))).published == 1
        broker.fail_publish(rig.topics.requests("m", "async"), BrokerError("denied"))
        tally = await rig.redrive(rate=1.0)
        assert (tally.published, tally.failed, tally.stopped) == (0, 1, "denied")
        broker.fail_publish(rig.topics.requests("m", "async"), None)
        assert (await rig.redrive()).skipped == {Reason.REDRIVEN: 1}


async def test_a_note_that_cannot_be_kept_is_said(prefix: str) -> None:
    broker = MemoryBroker()
    async with Clients(broker, prefix) as clients:
        rig = Rig(clients)
        await rig.start()
        await rig.bury(packed("a"))
        broker.fail_publish(rig.topics.dead("m"), BrokerError("denied"))
        tally = await rig.redrive()
    assert (tally.published, tally.failed) == (1, 0)
    assert "another re-drive would publish them once more: denied" in tally.stopped


async def test_a_model_without_a_dead_topic_is_told_so(broker: Broker, prefix: str) -> None:
    topics = Topics(prefix)
    with pytest.raises(UnknownModel, match="there is no request topic of a model 'none'"):
        async with open_letters(broker, topics, "none"):
            pass
    async with Clients(broker, prefix) as clients:
        await (await clients.admin()).create_topics([Topic(topics.requests("none", "async"), 1)])
    with pytest.raises(InvalidRequest, match=f"there is no topic {prefix}.none.dead"):
        async with open_letters(broker, topics, "none"):
            pass


async def test_a_code_is_one_that_is_known_or_that_a_letter_has(rig: Rig) -> None:
    await rig.bury(packed("a"), code="OUT_OF_LUCK")
    async with open_letters(rig.clients.broker, rig.topics, "m") as dead:
        for code in ("out_of_luck", "CANCELLED"):
            await check_codes(parse_where([f"code={code}"], 0.0), dead)
        with pytest.raises(UsageError, match=r"INTERNL: no letter of \S+ has this code.*: did you mean INTERNAL\?"):
            await check_codes(parse_where(["code=OUT_OF_LUCK", "code=internl"], 0.0), dead)
        with pytest.raises(UsageError, match="codes are INVALID_REQUEST, UNKNOWN_MODEL"):
            await check_codes(parse_where(["code=42"], 0.0), dead)
    assert await rig.newest(1, "code=out_of_luck") == [("0:0", False)]
