"""A request on its way to the retry topic that cannot go there is answered, and leaves the evidence of its code."""

import pytest
from fake_payloads import FakePayloads
from msgspec.structs import replace
from replier_rig import SCRIBE, TINY, rig_of
from scripted_runner import work

from producer_sdk.broker import Topic
from producer_sdk.dataref import S3Prefix
from producer_sdk.errors import OutOfMemory
from producer_sdk.memory import MemoryBroker
from producer_sdk.records import decode_reply_record
from producer_sdk.topics import Lane, Topics
from workers.publish import ENOUGH
from workers.reply import Scribe
from workers.retry_records import retry_record
from workers.storage import Storage
from workers.store_rule import StoreRule


async def test_a_moved_request_that_the_retry_topic_refuses_leaves_its_dead_letter() -> None:
    async with rig_of(MemoryBroker()) as rig:
        await rig.broker.admin().create_topics([Topic("p.m.retry", 1, config=TINY)])
        waiting = replace(work("a"), source=rig.outcome().source)
        await rig.put(SCRIBE.moved(waiting, OutOfMemory("no room just now"), retry_record(waiting, due_ms=10)))
        told = [len(rig.in_memory(topic)) for topic in ("p.m.retry", "p.m.dead", "p.m.results")]
        assert (told, rig.published[0].code) == ([0, 1, 1], "OUT_OF_MEMORY")


STORING = Scribe(Topics("p"), "m", "1", 100_000, store_rule=StoreRule(can_store=True))


@pytest.mark.parametrize("topics", [[], [Topic("p.m.retry", 1, config=TINY)]], ids=["missing", "refuses"])
async def test_a_moved_request_whose_outcome_is_to_be_stored_is_stored_before_it_is_told(topics: list[Topic]) -> None:
    store = FakePayloads()
    storage = Storage(store, "m", "1")
    async with rig_of(MemoryBroker(), scribe=STORING, storage=storage) as rig:
        await rig.broker.admin().create_topics(topics)
        wanted = S3Prefix("results", "out/")
        waiting = replace(work("a"), source=rig.outcome().source)
        waiting = replace(waiting, request=replace(waiting.request, store=wanted))
        await rig.put(STORING.moved(waiting, OutOfMemory("no room just now"), retry_record(waiting, due_ms=10)))
        (value,) = rig.in_memory("p.m.results")
        told = decode_reply_record(value)
        assert isinstance(told, OutOfMemory)
        assert told.ref is not None
        assert (told.ref.uri, list(store.objects)) == ("s3://results/out/a.msgpack", ["s3://results/out/a.msgpack"])
        assert len(rig.in_memory("p.m.dead")) == 1
        assert rig.replier._storing_nbytes == 0


async def test_an_interactive_outcome_that_is_put_back_does_not_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.publish.LINGER_S", 60.0)
    async with rig_of(MemoryBroker(), scribe=STORING, storage=Storage(FakePayloads(), "m", "1")) as rig:
        rig.running, rig.behind = 1, ENOUGH
        waiting = replace(work("a"), source=rig.outcome().source, lane=Lane.INTERACTIVE)
        waiting = replace(waiting, request=replace(waiting.request, store=S3Prefix("results", "out/")))
        await rig.put(STORING.moved(waiting, OutOfMemory("no room just now"), retry_record(waiting, due_ms=10)))
        assert len(rig.in_memory("p.m.results")) == 1
