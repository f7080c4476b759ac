"""What a client gives up is cancelled, and nothing else; never at the cost of who gives it up."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from producer_sdk import Cancelled, Client, InvalidRequest, Reply
from producer_sdk.broker import BrokerError, Outgoing, TopicPartition
from producer_sdk.cancels import Cancel, read_cancel
from producer_sdk.memory import MemoryAdmin
from producer_sdk.model_topics import model_topics
from producer_sdk.sync import Client as BlockingClient
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics
from producer_sdk.wire import encode_error, encode_reply

CANCELS = TopicPartition(Topics().cancels, 0)


def rows(count: int) -> Iterator[dict[str, int]]:
    for number in range(count):
        yield {"x": number}


@pytest.fixture
async def broker() -> AsyncIterator[MemoryBroker]:
    """A broker where the model `echo` answers and the model `silent` has topics and no worker."""
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    async with FakeWorker(broker, "echo", lambda inputs: inputs):
        yield broker


async def cancels(broker: MemoryBroker) -> list[Cancel]:
    """Those that were sent, oldest first."""
    reader = broker.reader(frozenset([CANCELS]), from_end=False)
    await reader.start()
    found = []
    while records := (await reader.poll(500, 0.0)).get(CANCELS):
        for record in records:
            cancel = read_cancel(record.value)
            assert record.key == cancel.id.encode()
            found.append(cancel)
    await reader.stop()
    return found


async def published_ms(broker: MemoryBroker) -> list[int]:
    """Timestamps of the requests to `silent`."""
    found = []
    for lane in ("interactive", "async"):
        for number in range(model_topics(Topics(), "silent")[0].partitions):
            place = TopicPartition(f"headrace.silent.{lane}", number)
            reader = broker.reader(frozenset([place]), from_end=False)
            await reader.start()
            found += [record.timestamp for record in (await reader.poll(500, 0.0)).get(place, ())]
            await reader.stop()
    return found


async def put_reply(broker: MemoryBroker, id: str, value: bytes) -> None:
    producer = broker.producer()
    await producer.start()
    await (await producer.publish("headrace.replies", Outgoing(id.encode(), value), 0))
    await producer.stop()


async def give_up(call: "asyncio.Task[Reply]") -> None:
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_cancel_is_acknowledged_when_it_returns(broker: MemoryBroker) -> None:
    before_ms = int(time.time() * 1000)
    async with Client(broker) as client:
        await client.cancel("job-1")
        (sent,) = await cancels(broker)
    assert sent.id == "job-1"
    assert before_ms <= sent.at_ms <= int(time.time() * 1000)


async def test_who_only_publishes_may_cancel_too() -> None:
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    async with Client(broker) as client:
        await client.cancel(await client.publish("silent", {"x": 1}, id="job-1"))
    assert (await broker.admin().topics())["headrace.cancels"] == 1


@pytest.mark.parametrize("id", ["", "a b", "..", "x" * 129])
async def test_a_bad_id_is_refused_and_nothing_is_sent(broker: MemoryBroker, id: str) -> None:
    async with Client(broker) as client:
        with pytest.raises(InvalidRequest, match="id"):
            await client.cancel(id)
    assert await cancels(broker) == []


async def test_a_cancel_that_is_not_acknowledged_is_a_typed_error(broker: MemoryBroker) -> None:
    broker.fail_publish(CANCELS.topic, BrokerError("the disk is full"))
    async with Client(broker) as client:
        with pytest.raises(BrokerError, match="disk"):
            await client.cancel("job-1")


async def test_a_closed_client_cancels_nothing(broker: MemoryBroker) -> None:
    client = Client(broker)
    await client.start()
    await client.close()
    with pytest.raises(Cancelled, match="closed"):
        await client.cancel("job-1")


async def test_a_topic_that_was_deleted_is_made_again(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        await client.cancel("job-1")
        broker.drop_topic(CANCELS.topic)
        await client.cancel("job-2")
    assert [cancel.id for cancel in await cancels(broker)] == ["job-2"]


async def test_a_call_that_asyncio_cancels_cancels_its_request_and_no_later_one(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        await give_up(asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1")))
    assert await cancels(broker) == [Cancel("job-1", (await published_ms(broker))[0])]


async def test_a_call_within_a_timeout_of_asyncio_cancels_its_request(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.infer("silent", {"x": 1}, id="job-1")
    assert [cancel.id for cancel in await cancels(broker)] == ["job-1"]


async def test_what_ends_otherwise_is_not_cancelled(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        await client.infer("echo", {"x": 1})
        assert [outcome async for outcome in client.map("echo", rows(20))]
        with pytest.raises(Exception, match="deadline"):
            await client.infer("silent", {"x": 1}, deadline_s=0.05)
    assert await cancels(broker) == []


async def test_a_request_that_was_not_sent_yet_is_not_cancelled(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: object) -> None:
        await asyncio.Event().wait()

    async with Client(broker) as client:
        with monkeypatch.context() as patched:
            patched.setattr(MemoryAdmin, "topics", never)
            await give_up(asyncio.create_task(client.infer("silent", {"x": 1})))
    assert (await cancels(broker), await published_ms(broker)) == ([], [])


async def test_a_request_that_waits_for_room_in_the_buffer_is_not_cancelled(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*arguments: object) -> None:
        await asyncio.Event().wait()

    async with Client(broker) as client:
        monkeypatch.setattr("producer_sdk._producer.Sender.send", never)
        await give_up(asyncio.create_task(client.infer("silent", {"x": 1})))
    assert await cancels(broker) == []


async def test_cancelling_goes_on_at_once_while_the_broker_is_silent(broker: MemoryBroker) -> None:
    async with Client(broker, close_timeout_s=0.2) as client:
        call = asyncio.create_task(client.infer("silent", {"x": 1}))
        await asyncio.sleep(0.05)
        broker.hold_acknowledgements()
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - began < 5
    assert time.monotonic() - began < 10
    broker.release_acknowledgements()


async def test_a_cancel_that_fails_in_the_background_harms_nobody_and_is_logged_once(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(broker) as client:
        calls = [asyncio.create_task(client.infer("silent", {"x": n})) for n in range(50)]
        await asyncio.sleep(0.05)
        broker.fail_publish(CANCELS.topic, BrokerError("the disk is full"))
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        with caplog.at_level(logging.WARNING, "producer_sdk"):
            await client.infer("echo", {"x": 1})
            await asyncio.sleep(0.05)
        broker.fail_publish(CANCELS.topic, None)
        await give_up(asyncio.create_task(client.infer("silent", {"x": 1}, id="later")))
    assert [record.message for record in caplog.records] == [
        "Cancels of 50 requests were not sent, so they run their course: the disk is full"
    ]
    assert [cancel.id for cancel in await cancels(broker)] == ["later"]


async def test_many_that_are_given_up_together_are_all_cancelled(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        calls = [asyncio.create_task(client.infer("silent", {"x": n}, id=f"job-{n}")) for n in range(1200)]
        await asyncio.sleep(0.3)
        before = len(asyncio.all_tasks())
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert len(asyncio.all_tasks()) <= before - 1200 + 1
    assert {cancel.id for cancel in await cancels(broker)} == {f"job-{n}" for n in range(1200)}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_map_closed_early_cancels_what_is_out(broker: MemoryBroker, asynchronous: bool) -> None:
    async def later() -> AsyncIterator[dict[str, int]]:
        for row in rows(1000):
            yield row

    async with Client(broker) as client:
        async with aclosing(client.map("silent", later() if asynchronous else rows(1000), window=32)) as outcomes:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(outcomes), 0.2)
        assert client.counters.pending == 0
    assert len({cancel.id for cancel in await cancels(broker)}) == 32
    assert max(await published_ms(broker)) == max(cancel.at_ms for cancel in await cancels(broker))


async def test_a_map_closed_early_cancels_none_that_has_its_outcome(broker: MemoryBroker) -> None:
    answered = []
    async with Client(broker) as client, aclosing(client.map("echo", rows(1000), window=8)) as outcomes:
        async for outcome in outcomes:
            answered.append(outcome.id)
            if len(answered) == 20:
                break
    ids = {cancel.id for cancel in await cancels(broker)}
    assert len(ids) <= 8
    assert not ids & set(answered)


async def test_closing_the_client_cancels_what_waits(broker: MemoryBroker) -> None:
    client = Client(broker)
    await client.start()
    call = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
    await asyncio.sleep(0.05)
    await client.close()
    with pytest.raises(Cancelled, match="closed"):
        await call
    assert await cancels(broker) == [Cancel("job-1", (await published_ms(broker))[0])]


async def test_the_end_of_a_request_given_up_does_not_end_the_next_one_of_its_id(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=0) as client:
        await give_up(asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1")))
        again = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
        await asyncio.sleep(0.05)
        await put_reply(broker, "job-1", encode_error("job-1", "silent", "1", Cancelled()))
        await put_reply(broker, "job-1", encode_reply("job-1", "silent", "1", {}, {}))
        assert (await again).id == "job-1"
        assert (client.counters.late, client.counters.answered) == (1, 1)


async def test_a_second_request_of_an_id_can_be_cancelled_too(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=0) as client:
        await give_up(asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1")))
        await put_reply(broker, "job-1", encode_error("job-1", "silent", "1", Cancelled()))
        await asyncio.sleep(0.2)
        again = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
        await asyncio.sleep(0.05)
        await put_reply(broker, "job-1", encode_error("job-1", "silent", "1", Cancelled()))
        with pytest.raises(Cancelled):
            await asyncio.wait_for(again, 2)


def test_the_blocking_client_cancels() -> None:
    broker = MemoryBroker()
    with BlockingClient(broker) as client:
        client.cancel("job-1")
        with pytest.raises(InvalidRequest):
            client.cancel("a b")
    assert [cancel.id for cancel in asyncio.run(cancels(broker))] == ["job-1"]


def test_a_blocking_map_left_early_cancels_what_is_out() -> None:
    broker = MemoryBroker()
    with BlockingClient(broker) as client:
        client._wait_for(broker.admin().create_topics(model_topics(Topics(), "silent")))
        for outcome in client.map("silent", [{"x": 1}, {"x": object()}]):
            assert (type(outcome), outcome.index) == (InvalidRequest, 1)
            break
    assert len(asyncio.run(cancels(broker))) == 1
