"""A lost reader is built anew where it was: no record is skipped, none is handled twice."""

import asyncio
from collections.abc import Sequence

import pytest
from fragile_broker import FragileBroker
from worker_rig import until

from producer_sdk import Client
from producer_sdk._follow import LONGEST_POLL_S, Follower
from producer_sdk.broker import BrokerError, Outgoing, Record, Topic, TopicPartition
from producer_sdk.testing import FakeWorker, MemoryBroker

PLACE = TopicPartition("headrace.here", 0)


@pytest.fixture
async def broker() -> FragileBroker:
    broker = FragileBroker()
    await broker.admin().create_topics([Topic(PLACE.topic, 1)])
    return broker


async def put(broker: MemoryBroker, *values: bytes) -> None:
    producer = broker.producer()
    await producer.start()
    for value in values:
        await (await producer.publish(PLACE.topic, Outgoing(None, value), PLACE.partition))
    await producer.stop()


async def until_read(follower: Follower, position: int) -> None:
    for _ in range(500):
        if follower.position == position:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"the follower stays at {follower.position}")


@pytest.mark.parametrize("from_end", [True, False])
@pytest.mark.parametrize("fault", [BrokerError("the connection is gone"), ZeroDivisionError("a bug below")])
async def test_records_that_come_while_no_reader_lives_are_handled_once(
    broker: FragileBroker, from_end: bool, fault: Exception
) -> None:
    got: list[bytes | None] = []
    await put(broker, b"before")
    follower = Follower(broker, PLACE, lambda records: got.extend(r.value for r in records), from_end=from_end)
    await follower.start()
    broker.failing_polls, broker.failing_starts, broker.poll_fault = 2, 2, fault
    await put(broker, b"1", b"2")
    await asyncio.sleep(0.2)
    lost = follower.failed
    await put(broker, b"3")
    await until_read(follower, 3 + 1)
    await follower.stop()
    assert got == [*([] if from_end else [b"before"]), b"1", b"2", b"3"]
    assert isinstance(lost, BrokerError)
    assert follower.failed is None


async def test_a_fault_in_one_haul_does_not_end_the_following(broker: FragileBroker) -> None:
    got: list[bytes | None] = []

    def handle(records: Sequence[Record]) -> None:
        got.extend(record.value for record in records)
        if b"bad" in got[-1:]:
            raise ValueError("a fault of ours")

    follower = Follower(broker, PLACE, handle, from_end=False)
    await follower.start()
    await put(broker, b"bad")
    await asyncio.sleep(0.05)
    await put(broker, b"good")
    await asyncio.sleep(0.05)
    await follower.stop()
    assert got == [b"bad", b"good"]


async def test_a_follower_stops_while_it_has_no_reader(broker: FragileBroker) -> None:
    follower = Follower(broker, PLACE, lambda records: None, from_end=False)
    await follower.start()
    broker.failing_polls, broker.failing_starts = 1, 1000
    await asyncio.sleep(0.3)
    async with asyncio.timeout(2):
        await follower.stop()
    assert follower.failed is not None


async def test_start_says_when_the_broker_does_not_answer(broker: FragileBroker) -> None:
    broker.failing_starts = 1
    with pytest.raises(BrokerError, match="no broker answers"):
        await Follower(broker, PLACE, lambda records: None, from_end=True).start()


async def test_a_call_outlives_the_loss_of_the_reply_reader(broker: FragileBroker) -> None:
    async with FakeWorker(broker, "echo", lambda inputs: inputs), Client(broker) as client:
        await client.infer("echo", {"x": 0})
        broker.failing_polls, broker.failing_starts = 1, 1
        replies = await asyncio.gather(*(client.infer("echo", {"x": n}) for n in range(20)))
        assert [int(reply.outputs["x"]) for reply in replies] == list(range(20))


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def test_time_in_which_nothing_could_be_heard_is_no_silence(broker: FragileBroker) -> None:
    clock, got = Clock(), list[Record]()
    follower = Follower(broker, PLACE, got.extend, from_end=False, clock=clock)
    clock.now_s += 100
    await follower.start()
    before_s = follower.listened_s()
    await put(broker, b"1")
    await until_read(follower, 1)
    clock.now_s += 0.05
    polled_s = follower.listened_s()
    clock.now_s += 100  # the process stood still in the middle of a poll
    stood_s = follower.listened_s()
    broker.failing_polls, broker.failing_starts = 1, 2
    await put(broker, b"2")
    await until(lambda: follower.failed is not None)
    clock.now_s += 100  # there was no reader
    deaf_s = follower.listened_s()
    await until_read(follower, 2)
    await follower.stop()
    assert (before_s, polled_s) == (0.0, pytest.approx(0.05))
    assert stood_s == deaf_s == pytest.approx(LONGEST_POLL_S)
