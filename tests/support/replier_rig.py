"""A replier on a broker in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from worker_rig import until

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import Outgoing, Topic, TopicPartition
from producer_sdk.errors import HeadraceError, InvalidRequest
from producer_sdk.memory import MemoryBroker
from producer_sdk.records import decode_reply_record
from producer_sdk.topics import Lane, ReplyTo, Topics
from producer_sdk.wire import Form
from workers.commit import PartitionLedger
from workers.publish import Destinations, Replier
from workers.reply import Scribe
from workers.work import Outcome, Rejected, Source

SMALL = {"max.message.bytes": "600"}
TINY = {"max.message.bytes": "90"}  # not even an error reply fits
TOPICS = [
    Topic("p.replies", 4),
    Topic("p.small", 1, config=SMALL),
    Topic("p.tiny", 1, config=TINY),
    Topic("p.m.results", 2),
    Topic("p.m.dead", 1, config={"max.message.bytes": "3000"}),
]
SCRIBE = Scribe(Topics("p"), "m", "1", 100_000)


class Rig:
    """A replier on a broker in memory; each outcome comes from an offset of its own in partition 5."""

    def __init__(self, broker: MemoryBroker, replier: Callable[..., Replier]) -> None:
        self.broker = broker
        self.ledger = PartitionLedger(TopicPartition("p.m.async", 5))
        self.published: list[Outcome] = []
        self.running = 0  # batches
        self.behind = 0  # requests
        self.replier = replier(published=self._note, running=lambda: self.running, behind=lambda: self.behind)
        self._offset = 0

    def outcome(
        self, topic: str = "p.replies", partition: int | None = None, size: int = 10, lane: Lane = Lane.ASYNC
    ) -> Outcome:
        offset, self._offset = self._offset, self._offset + 1
        self.ledger.take(offset)
        outgoing = Outgoing(b"id", b"v" * size)
        address = ReplyTo(topic, partition)
        return Outcome(str(offset), "OK", address, outgoing, self.source(offset), lane, 0.0, Form.MSGPACK)

    def source(self, offset: int) -> Source:
        return Source(self.ledger, offset)

    def dead_letter(self, value: bytes) -> Outcome:
        """That of a record which cannot be read."""
        source = self.outcome().source
        record = ReadRecord("p.m.async", 5, source.offset, 1, b"key", value, ())
        dead = Outgoing(b"key", value)
        rejected = Rejected("a", InvalidRequest("bad"), source, Lane.BULK, 0.0, dead=dead, record=record)
        return SCRIBE.rejected(rejected)

    def evident(self, value: bytes) -> Outcome:
        """An error reply `told` to p.replies:0, with the record of this value as its evidence."""
        failed = replace(self.dead_letter(value), code="INTERNAL", address=ReplyTo("p.replies", 0))
        return replace(failed, outgoing=Outgoing(b"id", b"told"), evidence=failed.outgoing)

    def in_memory(self, topic: str) -> list[bytes | None]:
        """The values of a topic, whether or not they are acknowledged; none where it does not exist."""
        logs = self.broker._logs._topics.get(topic, ())
        return [record.value for log in logs for record in log.read(0, 1000)[0]]

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        self.published += outcomes

    async def put(self, *outcomes: Outcome) -> None:
        """Hand over, and wait until each is published once and nothing is left in the counts."""
        wanted = len(self.published) + len(outcomes)
        self.replier.put(outcomes)
        await until(lambda: len(self.published) >= wanted)
        assert (self.replier.unacknowledged, self.replier._nbytes, self.ledger.unfinished) == (0, 0, 0)

    async def put_all_but(self, waiting: int, *outcomes: Outcome) -> None:
        """Hand over, and wait until no more than so many are unacknowledged."""
        self.replier.put(outcomes)
        await until(lambda: self.replier.unacknowledged <= waiting)

    async def lies_in(self, topic: str) -> Mapping[int, list[bytes | None]]:
        """The values of a topic by partition."""
        admin = self.broker.admin()
        partitions = [TopicPartition(topic, n) for n in range((await admin.topics())[topic])]
        reader = self.broker.reader(frozenset(partitions), from_end=False)
        await reader.start()
        polled = await reader.poll(1000, 0.0)
        return {where.partition: [record.value for record in records] for where, records in polled.items()}

    async def errors_in(self, topic: str) -> list[str]:
        values = [value for partition in (await self.lies_in(topic)).values() for value in partition]
        read = [decode_reply_record(value) for value in values if value and not value.startswith(b"v")]
        return [each.message for each in read if isinstance(each, HeadraceError)]


@asynccontextmanager
async def rig_of(broker: MemoryBroker, scribe: Scribe = SCRIBE, **more: Any) -> AsyncIterator[Rig]:
    producer, admin = broker.producer(), broker.admin()
    await producer.start()
    await admin.create_topics(TOPICS)
    rig = Rig(broker, lambda **told: Replier(producer, Destinations(admin), scribe, **told, **more))
    running = asyncio.create_task(rig.replier.run())
    yield rig
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await producer.stop(0.0)
