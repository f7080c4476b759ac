"""`headrace verify` finds nothing lost in a model that is busy while it reads: commits first, outcomes last."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from broker_clients import Clients, Owner
from made_topics import MODEL, MadeTopics, made_topics

from headrace.checker import check
from headrace.history import read_history
from producer_sdk.broker import Committed, Consumer, TopicPartition
from producer_sdk.testing import MemoryBroker


class Busy:
    """A broker in which one more request is answered and committed before each question to the administrator."""

    def __init__(self, made: MadeTopics, member: Consumer) -> None:
        self._made = made
        self._member = member
        self._numbers = count()

    async def serve(self) -> None:
        number = next(self._numbers)
        place = await self._made.request(str(number), reply_to=f"{self._made.topics.replies}:1")
        await self._made.reply(str(number), to=f"{self._made.topics.replies}:1")
        await self._member.commit({TopicPartition(place.topic, 0): Committed(place.offset + 1)})

    def reader(self, *arguments: Any, **more: Any) -> Consumer:
        return self._made.clients.broker.reader(*arguments, **more)

    def admin(self) -> Any:
        return _BusyAdmin(self, self._made.clients.broker.admin())


class _BusyAdmin:
    def __init__(self, busy: Busy, admin: Any) -> None:
        self._busy = busy
        self._admin = admin

    def __getattr__(self, name: str) -> Any:
        async def ask(*arguments: Any) -> Any:
            await self._busy.serve()
            return await getattr(self._admin, name)(*arguments)

        return ask


@pytest.fixture
async def made(prefix: str) -> AsyncIterator[MadeTopics]:
    async with Clients(MemoryBroker(), prefix) as clients, made_topics(clients) as made:
        yield made


async def test_a_busy_model_loses_nothing_by_being_looked_at(made: MadeTopics) -> None:
    topic, owner = made.topics.requests(MODEL, "async"), Owner()
    member = made.clients.broker.member(made.topics.group(MODEL), frozenset([topic]), owner)
    await member.start()
    await owner.until(lambda: bool(owner.owns))
    busy = Busy(made, member)
    for _ in range(3):
        report = check(await read_history(busy, made.topics, MODEL))  # type: ignore[arg-type]
        assert (report.lost, report.conflicting, report.notes) == (0, 0, ())
        assert report.accepted > 0
    await member.stop()
