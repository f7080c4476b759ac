"""A model's topics written by hand, so that exactly one thing is wrong in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from broker_clients import Clients, Owner

from headrace.checker import Report, check
from headrace.history import read_history
from producer_sdk.broker import Committed, Headers, Outgoing, Placed, Producer, TopicPartition
from producer_sdk.dead_letters import Facts, headers
from producer_sdk.errors import HeadraceError
from producer_sdk.event_records import Event, encode_event
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics, events_topic
from producer_sdk.topics import Topics, parse_reply_to
from producer_sdk.wire import Request, encode_error, encode_reply, encode_request
from workers.offset_map import Mark, Remembered, encode, place_of
from workers.retry_records import RETRY_HEADERS

MODEL = "m"
OK = "OK"


class MadeTopics:
    """The topics of the model `m`, two request partitions a lane; what is published here is all that is in them."""

    def __init__(self, clients: Clients, producer: Producer) -> None:
        self.clients = clients
        self.topics = Topics(clients.prefix)
        self._producer = producer

    async def request(
        self, id: str | None, *, lane: str = "async", partition: int = 0, reply_to: str | None = None, **more: object
    ) -> Placed:
        """A request, which MessagePack can hold without an input."""
        record = Outgoing(None, request_value(id, reply_to), **more)  # type: ignore[arg-type]
        return await self.publish(self.topics.requests(MODEL, lane), partition, record)

    async def garbage(self) -> Placed:
        return await self.publish(self.topics.requests(MODEL, "async"), 0, Outgoing(None, b"\xff\xff"))

    async def reply(self, id: str, code: str = OK, *, to: str | None = None, model: str = MODEL) -> Placed:
        topic, _, partition = (to or self.topics.results(MODEL)).partition(":")
        error = HeadraceError.from_code(code, "it failed")
        value = encode_reply(id, model, "1", {}, {}) if code == OK else encode_error(id, model, "1", error)
        return await self.publish(topic, int(partition or 0), Outgoing(id.encode(), value))

    async def dead(self, place: Placed, code: str) -> Placed:
        facts = Facts(place.topic, place.partition, place.offset, code=code)
        return await self.publish(self.topics.dead(MODEL), 0, Outgoing(b"k", b"v", headers(facts, [])))

    async def retry(self, place: Placed, id: str | None) -> Placed:
        """The request at a place goes on on the retry topic."""
        facts = {"topic": place.topic, "partition": place.partition, "offset": place.offset, "timestamp": 1}
        facts |= {"attempts": 1, "due": 1}
        ours: Headers = [(RETRY_HEADERS + name, str(fact).encode()) for name, fact in facts.items()]
        return await self.publish(self.topics.retry(MODEL), 0, Outgoing(None, request_value(id), ours))

    async def event(self, event: Event) -> None:
        await self.publish(self.topics.events, 0, Outgoing(b"w", encode_event(event)))

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Placed:
        return await (await self._producer.publish(topic, record, partition))

    async def commit(
        self, offset: int, *, topic: str | None = None, partition: int = 0, completed: Mapping[int, bool] | None = None
    ) -> None:
        """Commit for a partition of a topic, the async lane's unless named. `completed`: what the map says above it."""
        topic = topic or self.topics.requests(MODEL, "async")
        place, text = TopicPartition(topic, partition), ""
        if completed is not None:
            incomplete = tuple(each for each, done in completed.items() if not done)
            text = encode(offset, Remembered(Mark.CLOSED, max(completed), incomplete), place_of(place))
        owner = Owner()
        member = self.clients.broker.member(self.topics.group(MODEL), frozenset([topic]), owner)
        await member.start()
        await owner.until(lambda: bool(owner.owns))
        await member.commit({place: Committed(offset, text)})
        await member.stop()

    async def verified(self) -> Report:
        """What `headrace verify` finds."""
        return check(await read_history(self.clients.broker, self.topics, MODEL))


def request_value(id: str | None, reply_to: str | None = None) -> bytes:
    """A request without inputs; id None leaves the id to the worker."""
    value = encode_request(Request(id or "x", {}, reply_to=None if reply_to is None else parse_reply_to(reply_to)))
    return value if id is not None else value.replace(b"\xa1x", b"\xc0", 1)


@asynccontextmanager
async def made_topics(clients: Clients) -> AsyncIterator[MadeTopics]:
    admin, topics = await clients.admin(), Topics(clients.prefix)
    await ensure_system_topics(admin, topics, reply_partitions=2)
    await admin.create_topics([*model_topics(topics, MODEL, partitions=2), events_topic(topics)])
    yield MadeTopics(clients, await clients.producer())
