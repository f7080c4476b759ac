"""Requests that a topic refuses as one batch are sent apart: each gets its own outcome, once, and none is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import pytest

from producer_sdk._claims import Claims, Sending
from producer_sdk._producer import Sender
from producer_sdk._route import Route
from producer_sdk.broker import BrokerError, Outgoing, OutOfTurn, Placed
from producer_sdk.errors import HeadraceError, PayloadTooLarge
from producer_sdk.testing import MemoryBroker
from producer_sdk.topics import Topics

LIMIT = 250
SMALL, LARGE = bytes(100), bytes(300)


class Acknowledged:
    def __init__(self, future: asyncio.Future[Placed]) -> None:
        self._future = future

    def __await__(self) -> Generator[object, None, Placed]:
        return self._future.__await__()


class Gathering:
    """As Kafka's client: what is handed over in one turn of the loop is one batch, which its topic refuses as one."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.gone = False
        self.out_of_turn = 0
        self._gathered: list[Outgoing] = []
        self._together: Acknowledged | None = None

    def publish_now(self, topic: str, record: Outgoing, partition: int) -> Acknowledged:
        self._gathered.append(record)
        if self._together is None:
            future: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
            self._together = Acknowledged(future)
            asyncio.get_running_loop().call_soon(self._flush, future)
        return self._together

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> Acknowledged:
        return Acknowledged(self.publish_now(topic, record, 0)._future)

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.gone:
            raise BrokerError("gone")
        self._take(records)
        return 0

    def _flush(self, future: asyncio.Future[Placed]) -> None:
        records, self._gathered, self._together = self._gathered, [], None
        try:
            self._take(records)
        except HeadraceError as err:
            future.set_exception(err)
        else:
            future.set_result(Placed("t", 0, 0))

    def _take(self, records: Sequence[Outgoing]) -> None:
        if self.out_of_turn:
            self.out_of_turn -= 1
            raise OutOfTurn
        if sum(len(record.value or b"") for record in records) > LIMIT:
            raise PayloadTooLarge("too large")
        self.arrived += [(record.key or b"").decode() for record in records]


class Rig:
    def __init__(self) -> None:
        self.producer = Gathering()
        self.told: list[tuple[str, type[HeadraceError]]] = []
        broker: Any = self.producer
        self.sender = Sender(broker, MemoryBroker().admin(), Topics(), self.tell, Claims(None))
        self.sender.start()
        self.route = Route("t", 2, "m", "interactive")

    def tell(self, id: str, error: HeadraceError) -> None:
        self.told.append((id, type(error)))

    async def deliver(self, sending: Sending) -> None:
        try:
            await self.sender.deliver(self.route, sending)
        except HeadraceError as err:
            self.tell(sending.id, err)

    async def settle(self) -> None:
        async with asyncio.timeout(10):
            while len(self.sender._tasks) > 1 or self.sender._sent:  # noqa: ASYNC110 - the watcher is one
                await asyncio.sleep(0)
        await self.sender.close()


async def at_once(rig: Rig, sendings: Sequence[Sending]) -> None:
    for sending in sendings:
        assert rig.sender.send_now(rig.route, sending)


async def each(rig: Rig, sendings: Sequence[Sending]) -> None:
    await asyncio.gather(*(rig.sender.send_alone(rig.route, sending) for sending in sendings))


async def together(rig: Rig, sendings: Sequence[Sending]) -> None:
    rig.sender.send_together(rig.route, sendings)


async def delivered(rig: Rig, sendings: Sequence[Sending]) -> None:
    await asyncio.gather(*(rig.deliver(sending) for sending in sendings))


Way = Callable[[Rig, Sequence[Sending]], Awaitable[None]]
WAYS = pytest.mark.parametrize("way", [at_once, each, together, delivered])
IDS = "abcdefghi"


def sendings(large: str) -> list[Sending]:
    return [Sending(id, Outgoing(id.encode(), LARGE if id in large else SMALL)) for id in IDS]


@WAYS
@pytest.mark.parametrize("large", ["", "d", "ai"])
async def test_only_what_is_too_large_itself_is_refused(way: Way, large: str) -> None:
    rig = Rig()
    await way(rig, sendings(large))
    await rig.settle()
    assert rig.told == [(id, PayloadTooLarge) for id in large]
    assert rig.producer.arrived == [id for id in IDS if id not in large]


@WAYS
async def test_they_are_sent_one_batch_after_the_other(way: Way) -> None:
    rig = Rig()
    for _ in range(3):
        await way(rig, sendings(""))
        await asyncio.sleep(0)
    await rig.settle()
    assert len(rig.producer.arrived) == 3 * len(IDS)
    assert rig.producer.most_at_once <= (3 if way is together else 1)  # of which each knows nothing of the others yet


@pytest.mark.parametrize("way", [at_once, each, delivered])
async def test_who_finds_the_broker_gone_then_is_told_once(way: Way) -> None:
    rig = Rig()
    rig.producer.gone = True
    await way(rig, sendings(""))
    await rig.settle()
    assert rig.told == [(id, BrokerError) for id in IDS]


@WAYS
async def test_what_was_refused_behind_others_is_sent_again(way: Way) -> None:
    rig = Rig()
    rig.producer.out_of_turn = 2
    await way(rig, sendings("")[:2])
    await rig.settle()
    assert (rig.told, rig.producer.arrived) == ([], ["a", "b"])


@WAYS
async def test_it_is_not_sent_again_for_ever(way: Way) -> None:
    rig = Rig()
    rig.producer.out_of_turn = 1000
    await way(rig, sendings("")[:2])
    await rig.settle()
    assert rig.told == [("a", OutOfTurn), ("b", OutOfTurn)]
