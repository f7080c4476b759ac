"""`Client.infer` on the broker in memory."""

import asyncio
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest

from producer_sdk import (
    Cancelled,
    Client,
    DeadlineExceeded,
    InferenceFailed,
    Internal,
    InvalidRequest,
    PayloadTooLarge,
    QueueFull,
    RunnerCrashed,
    UnknownModel,
)
from producer_sdk.broker import BrokerError, Outgoing, TopicPartition
from producer_sdk.memory import MemoryAdmin
from producer_sdk.model_topics import model_topics
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics
from producer_sdk.wire import encode_reply


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


async def put_reply(broker: MemoryBroker, record: Outgoing) -> None:
    producer = broker.producer()
    await producer.start()
    await (await producer.publish("headrace.replies", record, 0))
    await producer.stop()


async def end_of(broker: MemoryBroker, partition: int) -> int:
    place = TopicPartition("headrace.silent.async", partition)
    reader = broker.reader(frozenset({place}), from_end=True)
    await reader.start()
    end = (await reader.end_offsets(frozenset({place})))[place]
    await reader.stop()
    return end


@pytest.fixture
async def broker() -> AsyncIterator[MemoryBroker]:
    """A broker where the model `double` answers and the model `silent` has topics and no worker."""
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    async with FakeWorker(broker, "double", double, version="7"):
        yield broker


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
async def test_a_reply_carries_outputs_id_model_and_version(broker: MemoryBroker, encoding: str) -> None:
    async with Client(broker, encoding=encoding) as client:  # type: ignore[arg-type]
        reply = await client.infer("double", {"x": np.arange(3)}, id="job-1")
    np.testing.assert_array_equal(reply.outputs["y"], [0, 2, 4])
    assert (reply.id, reply.model, reply.version, reply.index) == ("job-1", "double", "7", None)
    assert not reply.outputs["y"].flags.writeable


async def test_many_at_once_each_get_their_own(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        replies = await asyncio.gather(*(client.infer("double", {"x": n}) for n in range(200)))
        assert [int(reply.outputs["y"]) for reply in replies] == [2 * n for n in range(200)]
        assert (client.counters.answered, client.counters.pending) == (200, 0)


async def test_an_error_reply_is_raised_with_code_and_id() -> None:
    broker = MemoryBroker()
    async with FakeWorker(broker, "bad", RunnerCrashed("the runner died")), Client(broker) as client:
        with pytest.raises(RunnerCrashed, match="the runner died") as raised:
            await client.infer("bad", {"x": 1}, id="job-1")
    assert (raised.value.code, raised.value.retryable, raised.value.id) == ("RUNNER_CRASHED", False, "job-1")


async def test_an_unknown_model_fails_at_once_and_creates_no_topic(broker: MemoryBroker) -> None:
    before = set(await broker.admin().topics())
    async with Client(broker) as client:
        with pytest.raises(UnknownModel) as raised:
            await client.infer("nope", {"x": 1}, id="job-1")
        with pytest.raises(UnknownModel):
            await client.publish("nope", {"x": 1})
    assert raised.value.id == "job-1"
    assert set(await broker.admin().topics()) == before


async def test_a_model_that_appears_is_found_by_the_next_look(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producer_sdk._producer.LOOK_AGAIN_S", 0.05)
    async with Client(broker) as client:
        with pytest.raises(UnknownModel):
            await client.publish("later", {"x": 1})
        await broker.admin().create_topics(model_topics(Topics(), "later"))
        await asyncio.sleep(0.06)
        assert await client.publish("later", {"x": 1}, id="job-1") == "job-1"


async def test_a_silent_model_ends_in_deadline_exceeded_soon_after_it(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded) as raised:
            await client.infer("silent", {"x": 1}, id="job-1", deadline_s=0.2)
        assert 0.2 <= time.monotonic() - began < 10.0
        assert raised.value.id == "job-1"
        assert (client.counters.expired, client.counters.pending) == (1, 0)


async def test_a_short_deadline_is_not_kept_waiting_by_a_long_one(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        long = asyncio.create_task(client.infer("silent", {"x": 1}, deadline_s=60))
        await asyncio.sleep(0.05)
        with pytest.raises(DeadlineExceeded):
            async with asyncio.timeout(3):
                await client.infer("silent", {"x": 1}, deadline_s=0.1)
        long.cancel()


async def test_a_record_above_the_limit_is_refused_at_once(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        with pytest.raises(PayloadTooLarge) as raised:
            await client.infer("double", {"x": np.zeros(2_000_000)}, id="job-1")
        assert raised.value.id == "job-1"
        assert client.counters.pending == 0


async def test_a_reply_above_the_limit_is_an_error_and_not_silence() -> None:
    broker = MemoryBroker()
    big = {"y": np.zeros(2_000_000)}
    async with FakeWorker(broker, "big", lambda inputs: big), Client(broker) as client:
        with pytest.raises(PayloadTooLarge):
            await client.infer("big", {"x": 1})


async def test_a_failed_acknowledgement_fails_the_call_at_once(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        await client.infer("double", {"x": 1})
        broker.fail_publish("headrace.silent.interactive", BrokerError("the disk is full"))
        with pytest.raises(Internal, match="the disk is full") as raised:
            async with asyncio.timeout(3):
                await client.infer("silent", {"x": 1}, id="job-1")
    assert raised.value.id == "job-1"


async def test_two_that_wait_may_not_share_an_id(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        first = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
        await asyncio.sleep(0.05)
        with pytest.raises(InvalidRequest, match="'job-1'"):
            await client.infer("double", {"x": 1}, id="job-1")
        assert client.counters.pending == 1
        first.cancel()


async def test_one_request_too_many_is_refused_at_once(broker: MemoryBroker) -> None:
    async with Client(broker, max_pending=1) as client:
        first = asyncio.create_task(client.infer("silent", {"x": 1}))
        await asyncio.sleep(0.05)
        with pytest.raises(QueueFull):
            await client.infer("double", {"x": 1})
        first.cancel()
        await asyncio.wait([first])
        await client.infer("double", {"x": 1})


async def test_a_cancelled_call_is_forgotten_and_its_reply_counted_as_late(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=0) as client:
        call = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert client.counters.pending == 0
        await put_reply(broker, Outgoing(b"job-1", encode_reply("job-1", "silent", "1", {}, {})))
        await client.infer("double", {"x": 1})
        assert client.counters.late == 1


async def test_close_ends_what_waits_with_a_typed_error_in_bounded_time(broker: MemoryBroker) -> None:
    client = Client(broker)
    await client.start()
    call = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await client.close()
        await client.close()
        with pytest.raises(Cancelled, match="closed") as raised:
            await call
    assert raised.value.id == "job-1"
    with pytest.raises(Cancelled, match="closed"):
        await client.infer("double", {"x": 1})


async def test_close_is_not_held_by_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(MemoryBroker())

    async def never(self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(MemoryAdmin, "topics", never)
    await client.start()
    call = asyncio.create_task(client.infer("double", {"x": 1}, deadline_s=0.3))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(0.2):
        await client.close()
    with pytest.raises(DeadlineExceeded):
        await call


async def test_a_client_that_was_not_started_says_so() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        await Client(MemoryBroker()).infer("double", {"x": 1})


async def test_clients_may_share_a_reply_partition(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=3) as one, Client(broker, reply_partition=3) as two:
        await one.infer("double", {"x": 1})
        await two.infer("double", {"x": 1})
        await one.infer("double", {"x": 1})
        assert one.counters.foreign == 1
        assert two.counters.answered == 1


async def test_a_reply_partition_that_does_not_exist_is_refused(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=32) as client:
        with pytest.raises(InvalidRequest, match="32"):
            await client.infer("double", {"x": 1})


async def test_second_late_foreign_and_unreadable_replies_are_counted_and_harm_nobody(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=0) as client:
        await client.infer("double", {"x": 1}, id="job-1")
        foreign = encode_reply("job-2", "double", "7", {}, {})
        for key, value in ((b"job-1", foreign), (None, foreign), (None, b"\xff"), (None, b"{")):
            await put_reply(broker, Outgoing(key, value))
        await client.infer("double", {"x": 1})
        counters = client.counters
    assert (counters.duplicate, counters.foreign, counters.unreadable) == (1, 1, 2)
    assert counters.answered == 2


async def test_an_unreadable_reply_ends_the_call_at_once(broker: MemoryBroker) -> None:
    async with Client(broker, reply_partition=0) as client:
        await client.infer("double", {"x": 1})
        call = asyncio.create_task(client.infer("silent", {"x": 1}, id="job-1"))
        await asyncio.sleep(0.05)
        await put_reply(broker, Outgoing(b"job-1", b"\xc1"))
        with pytest.raises(InvalidRequest, match="no reply") as raised:
            async with asyncio.timeout(3):
                await call
    assert raised.value.id == "job-1"


async def test_a_publisher_reads_no_replies_and_makes_no_topics() -> None:
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    async with Client(broker) as client:
        assert await client.publish("silent", {"x": 1}, id="job-1") == "job-1"
    assert "headrace.replies" not in await broker.admin().topics()


async def test_the_first_infer_makes_the_system_topics_with_their_partitions() -> None:
    fresh = MemoryBroker()
    await fresh.admin().create_topics(model_topics(Topics(), "silent"))
    async with Client(fresh) as client:
        with pytest.raises(DeadlineExceeded):
            await client.infer("silent", {"x": 1}, deadline_s=0.01)
    topics = await fresh.admin().topics()
    assert [topics[f"headrace.{name}"] for name in ("replies", "control", "cancels")] == [32, 1, 1]


async def test_publish_with_a_reply_address_outside_the_prefix_is_refused(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        for wrong in ("elsewhere.topic", "headrace.double.async", "headrace.control:0", "no spaces"):
            with pytest.raises(InvalidRequest, match="reply_to"):
                await client.publish("double", {"x": 1}, reply_to=wrong)


async def test_a_models_own_exception_is_inference_failed(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        with pytest.raises(InferenceFailed):
            await client.infer("double", {"wrong": 1})


async def test_requests_spread_over_the_partitions(broker: MemoryBroker) -> None:
    async with Client(broker) as client:
        for _ in range(16):
            await client.publish("silent", {"x": 1})
    partitions = model_topics(Topics(), "silent")[0].partitions
    lanes = [(await end_of(broker, partition)) for partition in range(partitions)]
    assert lanes == [16 // partitions] * partitions
