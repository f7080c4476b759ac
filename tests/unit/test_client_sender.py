"""Requests that are handed over at once share an acknowledgement, and each is told its own end."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from producer_sdk._claims import Claims, Sending
from producer_sdk._producer import Sender
from producer_sdk._route import Route
from producer_sdk.broker import AtOnce, BrokerError, Outgoing, Placed
from producer_sdk.errors import HeadraceError
from producer_sdk.testing import MemoryBroker
from producer_sdk.topics import Topics

ROUTE = Route("t", 2, "m", "interactive")


class Together:
    def __init__(self) -> None:
        self.future: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[object, None, Placed]:
        return self.future.__await__()


class Producer:
    """Gathers what is handed over at once; publishes what comes alone."""

    def __init__(self) -> None:
        self.together: Together | None = Together()
        self.gathered: list[bytes | None] = []
        self.alone: list[bytes | None] = []
        self.partitions: list[int | None] = []

    def publish_now(self, topic: str, record: Outgoing, partition: int) -> Together | None:
        if self.together is not None:
            self.partitions.append(partition)
            self.gathered.append(record.key)
        return self.together

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> Together:
        self.alone.append(record.key)
        self.partitions.append(partition)
        done = Together()
        done.future.set_result(Placed(topic, 0, 0))
        return done

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def sending(id: str) -> Sending:
    return Sending(id, Outgoing(id.encode(), b"x"))


class Rig:
    def __init__(self) -> None:
        self.producer = Producer()
        self.told: dict[str, HeadraceError] = {}
        broker: Any = self.producer
        self.sender = Sender(broker, MemoryBroker().admin(), Topics(), self.told.__setitem__, Claims(None))
        self.sender.start()

    async def end(self, error: HeadraceError | None) -> None:
        assert self.producer.together is not None
        future = self.producer.together.future
        future.set_result(Placed("t", 0, 0)) if error is None else future.set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)
        await self.sender.close()


async def test_all_of_a_batch_are_told_its_failure() -> None:
    rig = Rig()
    assert isinstance(rig.producer, AtOnce)
    assert [rig.sender.send_now(ROUTE, sending(id)) for id in "abc"] == [True] * 3
    await rig.end(BrokerError("gone"))
    assert {id: error.id for id, error in rig.told.items()} == {"a": "a", "b": "b", "c": "c"}


async def test_an_acknowledged_batch_tells_nobody_and_is_forgotten() -> None:
    rig = Rig()
    rig.sender.send_now(ROUTE, sending("a"))
    await rig.end(None)
    assert (rig.told, rig.sender._sent) == ({}, {})


@pytest.mark.parametrize("id", ["a"])
async def test_where_it_would_have_to_wait_nothing_is_handed_over(id: str) -> None:
    rig = Rig()
    rig.producer.together = None
    assert not rig.sender.send_now(ROUTE, sending(id))
    assert (rig.producer.gathered, rig.sender._sent) == ([], {})
    await rig.sender.close()


async def test_a_partition_that_is_full_loses_nobody_a_turn() -> None:
    rig, route = Rig(), Route("t", 3, "m", "interactive")
    first, gathers = route.partition, rig.producer.together
    for id, room in (("a", True), ("b", False), ("c", True)):
        rig.producer.together = gathers if room else None
        if not rig.sender.send_now(route, sending(id)):
            await rig.sender.send(route, sending(id))
    await rig.sender.close()
    assert rig.producer.partitions == [(first + turn) % 3 for turn in range(3)]
