"""A request on its way to the retry topic that cannot go there is answered, and leaves the evidence of its code."""

from msgspec.structs import replace
from replier_rig import SCRIBE, TINY, rig_of
from scripted_runner import work

from producer_sdk.broker import Topic
from producer_sdk.errors import OutOfMemory
from producer_sdk.memory import MemoryBroker
from workers.retry_records import retry_record


async def test_a_moved_request_that_the_retry_topic_refuses_leaves_its_dead_letter() -> None:
    async with rig_of(MemoryBroker()) as rig:
        await rig.broker.admin().create_topics([Topic("p.m.retry", 1, config=TINY)])
        waiting = replace(work("a"), source=rig.outcome().source)
        await rig.put(SCRIBE.moved(waiting, OutOfMemory("no room just now"), retry_record(waiting, due_ms=10)))
        told = [len(rig.in_memory(topic)) for topic in ("p.m.retry", "p.m.dead", "p.m.results")]
        assert (told, rig.published[0].code) == ([0, 1, 1], "OUT_OF_MEMORY")
