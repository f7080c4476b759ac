"""The client's promises, on every broker: one outcome for each call, in time, and nothing left behind."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import numpy as np
import pytest

from producer_sdk import Client, DeadlineExceeded, HeadraceError, PayloadTooLarge, Reply, UnknownModel
from producer_sdk.announcements import ModelState
from producer_sdk.broker import Broker, TopicPartition
from producer_sdk.directory import ModelDirectory
from producer_sdk.model_topics import model_topics
from producer_sdk.sync import Client as BlockingClient
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker
from producer_sdk.topics import Topics
from producer_sdk.wire import Request, decode_request

ROW = np.arange(16, dtype=np.float32).reshape(1, 16)


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


def rows(count: int) -> Iterator[dict[str, int]]:
    for number in range(count):
        yield {"x": number}


@pytest.fixture
async def worker(broker: Broker, prefix: str) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(broker, "double", double, prefix=prefix) as worker:
        yield worker


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
async def test_a_reply_comes_back_in_either_encoding(
    broker: Broker, prefix: str, worker: FakeWorker, encoding: str
) -> None:
    async with Client(broker, prefix=prefix, encoding=encoding) as client:  # type: ignore[arg-type]
        reply = await client.infer("double", {"x": ROW}, id="job-1", parameters={"k": 2}, tenant="blue")
    np.testing.assert_array_equal(reply.outputs["y"], ROW * 2)
    assert (reply.id, reply.model, reply.version) == ("job-1", "double", "1")
    assert (worker.received[0].parameters, worker.received[0].tenant) == ({"k": 2}, "blue")


async def test_the_first_reply_of_a_client_is_never_missed(broker: Broker, prefix: str, worker: FakeWorker) -> None:
    for number in range(5):
        async with Client(broker, prefix=prefix) as client:
            reply = await client.infer("double", {"x": number}, deadline_s=10)
            assert int(reply.outputs["y"]) == 2 * number


async def test_map_gives_every_item_its_own_outcome(broker: Broker, prefix: str, worker: FakeWorker) -> None:
    async with Client(broker, prefix=prefix) as client:
        outcomes = [outcome async for outcome in client.map("double", rows(500), window=100)]
    values = {outcome.index: int(outcome.outputs["y"]) for outcome in outcomes if isinstance(outcome, Reply)}
    assert values == {n: 2 * n for n in range(500)}
    assert len(outcomes) == 500


async def test_an_oversized_item_fails_alone(broker: Broker, prefix: str, worker: FakeWorker) -> None:
    items: list[dict[str, Array]] = [{"x": ROW}, {"x": np.zeros(2_000_000)}, {"x": ROW}]
    async with Client(broker, prefix=prefix) as client:
        outcomes = [outcome async for outcome in client.map("double", items, window=24, ordered=True)]
        with pytest.raises(PayloadTooLarge):
            await client.infer("double", {"x": np.zeros(2_000_000)})
        assert client.counters.pending == 0
    assert [type(outcome) for outcome in outcomes] == [Reply, PayloadTooLarge, Reply]


async def test_an_unknown_model_fails_at_once_and_no_topic_appears(
    broker: Broker, prefix: str, worker: FakeWorker
) -> None:
    async with Client(broker, prefix=prefix) as client:
        await client.infer("double", {"x": 1})
        began = time.monotonic()
        with pytest.raises(UnknownModel):
            await client.infer("nope", {"x": 1})
        assert time.monotonic() - began < 10
    assert not [name for name in await topic_names(broker) if "nope" in name]


async def test_a_publish_without_a_worker_is_kept_for_one(broker: Broker, prefix: str) -> None:
    admin = broker.admin()
    await admin.start()
    await admin.create_topics(model_topics(Topics(prefix), "later", partitions=1))
    await admin.stop()
    async with Client(broker, prefix=prefix) as client:
        for number in range(3):
            assert await client.publish("later", {"x": number}, id=f"job-{number}") == f"job-{number}"
    requests = await read(broker, TopicPartition(Topics(prefix).requests("later", "async"), 0), 3)
    assert [(request.id, request.reply_to, request.deadline_ms) for request in requests] == [
        (f"job-{number}", None, None) for number in range(3)
    ]


async def test_a_call_that_nobody_answers_ends_soon_after_its_deadline(broker: Broker, prefix: str) -> None:
    admin = broker.admin()
    await admin.start()
    await admin.create_topics(model_topics(Topics(prefix), "silent", partitions=1))
    await admin.stop()
    async with Client(broker, prefix=prefix) as client:
        with pytest.raises(DeadlineExceeded):
            await client.infer("silent", {"x": 1}, deadline_s=3)
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await client.infer("silent", {"x": 1}, deadline_s=0.3)
        assert 0.3 <= time.monotonic() - began < 10
        assert client.counters.pending == 0


async def test_clients_that_share_a_reply_partition_get_their_own(
    broker: Broker, prefix: str, worker: FakeWorker
) -> None:
    async with (
        Client(broker, prefix=prefix, reply_partition=5) as one,
        Client(broker, prefix=prefix, reply_partition=5) as two,
    ):
        mine = asyncio.gather(*(one.infer("double", {"x": n}) for n in range(50)))
        theirs = asyncio.gather(*(two.infer("double", {"x": -n}) for n in range(50)))
        assert [int(reply.outputs["y"]) for reply in await mine] == [2 * n for n in range(50)]
        assert [int(reply.outputs["y"]) for reply in await theirs] == [-2 * n for n in range(50)]
        assert one.counters.foreign + two.counters.foreign > 0


async def test_leaving_a_map_early_leaves_the_client_usable(broker: Broker, prefix: str, worker: FakeWorker) -> None:
    async with Client(broker, prefix=prefix) as client:
        async with aclosing(client.map("double", rows(1000), window=50)) as outcomes:
            await anext(outcomes)
        assert client.counters.pending == 0
        reply = await client.infer("double", {"x": 4})
        assert int(reply.outputs["y"]) == 8


async def test_the_directory_knows_a_worker_from_start_to_leave(broker: Broker, prefix: str) -> None:
    directory = ModelDirectory(broker, Topics(prefix))
    async with FakeWorker(broker, "double", double, prefix=prefix, version="3"):
        await directory.start()
        view = directory.get("double")
        assert view is not None
        assert (view.state, view.versions, directory.failed) == (ModelState.READY, ("3",), None)
    for _ in range(300):
        if directory.get("double") is None:
            break
        await asyncio.sleep(0.01)
    assert directory.models() == {}
    await directory.close()


@pytest.mark.kafka
async def test_the_blocking_client_answers_over_kafka(kafka: object, prefix: str) -> None:
    address: str = kafka.bootstrap_servers  # type: ignore[attr-defined]

    def ask() -> list[Reply | HeadraceError]:
        with BlockingClient(address, prefix=prefix, client_id="blocking") as client:
            assert int(client.infer("double", {"x": 4}).outputs["y"]) == 8
            return list(client.map("double", rows(200), window=32, ordered=True))

    from producer_sdk.kafka import KafkaBroker

    async with FakeWorker(KafkaBroker(address), "double", double, prefix=prefix):
        outcomes = await asyncio.to_thread(ask)
    assert [int(outcome.outputs["y"]) for outcome in outcomes if isinstance(outcome, Reply)] == [
        2 * n for n in range(200)
    ]


async def topic_names(broker: Broker) -> set[str]:
    admin = broker.admin()
    await admin.start()
    names = set(await admin.topics())
    await admin.stop()
    return names


async def read(broker: Broker, place: TopicPartition, count: int) -> list[Request]:
    reader = broker.reader(frozenset({place}), from_end=False)
    await reader.start()
    found: list[Request] = []
    while len(found) < count:
        for record in (await reader.poll(100, 1.0)).get(place, ()):
            request = decode_request(record.value or b"", "fallback")
            assert isinstance(request, Request)
            found.append(request)
    await reader.stop()
    return found
