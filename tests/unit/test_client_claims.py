"""What is too large for a record travels by reference, and nobody has to ask for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from fake_payloads import CLAIM_BUCKET, FakePayloads

from producer_sdk import Client, DeadlineExceeded, HeadraceError, PayloadTooLarge, Reply, ResultGone
from producer_sdk._claims import MARGIN_MS, claim_expiry_ms
from producer_sdk.broker import Misconfigured, Record, TopicPartition
from producer_sdk.claim_keys import KEPT_MS
from producer_sdk.dataref import DataRef
from producer_sdk.errors import InferenceFailed
from producer_sdk.payloads import PayloadUnavailable, S3Settings
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics
from producer_sdk.wire import Request

SMALL = np.arange(4, dtype=np.float32).reshape(1, 4)
LARGE = np.arange(400_000, dtype=np.float32).reshape(1, -1)  # 1.6 MB, above what the broker takes


def twice(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


def total(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"].sum(keepdims=True)}


@pytest.fixture
def store() -> FakePayloads:
    return FakePayloads()


@pytest.fixture
async def broker(store: FakePayloads) -> AsyncIterator[MemoryBroker]:
    broker = MemoryBroker()
    async with FakeWorker(broker, "twice", twice, s3=store), FakeWorker(broker, "total", total, s3=store):
        yield broker


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def records_of(broker: MemoryBroker, topic: str, partition: int) -> list[Record]:
    place = TopicPartition(topic, partition)
    reader = broker.reader(frozenset({place}), from_end=False)
    await reader.start()
    found = list((await reader.poll(100, 0.1)).get(place, ()))
    await reader.stop()
    return found


async def requests_of(broker: MemoryBroker, model: str, lane: str) -> list[Request]:
    topic = Topics().requests(model, lane)
    records = await records_of(broker, topic, 0) + await records_of(broker, topic, 1)
    read = [decode_record(record.value, record.headers, "f", record.timestamp) for record in records]
    return [request for request in read if isinstance(request, Request)]


@pytest.mark.parametrize("encoding", ["msgpack", "json"])
async def test_large_inputs_and_outputs_travel_by_reference(
    broker: MemoryBroker, store: FakePayloads, encoding: Any
) -> None:
    async with Client(broker, s3=store, encoding=encoding) as client:
        reply = await client.infer("twice", {"x": LARGE}, parameters={"k": 1}, tenant="blue")
        np.testing.assert_array_equal(reply.outputs["y"], LARGE * 2)
        assert reply.ref is None
        assert client.counters.answered == 1
    [request] = await requests_of(broker, "twice", "interactive")
    assert (request.inputs, request.parameters, request.tenant) == ({}, {"k": 1}, "blue")
    assert request.ref is not None
    assert request.ref.place.bucket == CLAIM_BUCKET
    assert [verb for verb, _ in store.asked] == ["put", "get", "put", "get"]


async def test_what_fits_below_the_threshold_is_sent_as_ever(broker: MemoryBroker, store: FakePayloads) -> None:
    async with Client(broker, s3=store) as client:
        await client.infer("twice", {"x": SMALL})
    assert store.asked == []


async def test_the_threshold_is_that_of_the_settings(broker: MemoryBroker) -> None:
    store = FakePayloads(S3Settings(claim_bucket=CLAIM_BUCKET, claim_bytes=100))
    async with Client(broker, s3=store) as client:
        await client.publish("total", {"x": np.zeros(10, np.float32)})
        assert store.asked == []
        await client.publish("total", {"x": np.zeros(40, np.float32)})
        assert len(store.objects) == 1


async def test_without_a_claim_bucket_too_large_is_refused_at_once_and_says_the_way_out(broker: MemoryBroker) -> None:
    results_only = FakePayloads(S3Settings(buckets=frozenset(["results"])))
    for s3 in (None, results_only):
        async with Client(broker, s3=s3) as client:
            for ask in (client.infer, client.publish):
                with pytest.raises(PayloadTooLarge, match="HEADRACE_S3_CLAIM_BUCKET"):
                    await ask("total", {"x": LARGE})
            outcomes = [each async for each in client.map("total", [{"x": LARGE}])]
            assert [type(each) for each in outcomes] == [PayloadTooLarge]
            assert str(outcomes[0]).count("HEADRACE_S3_CLAIM_BUCKET") == 1


async def test_map_keeps_its_order_and_its_window_with_large_items_among_small_ones(
    broker: MemoryBroker, store: FakePayloads
) -> None:
    items = [{"x": np.full((1, 400_000 if n % 3 == 0 else 4), n, np.float32)} for n in range(12)]
    async with Client(broker, s3=store) as client:
        outcomes = [each async for each in client.map("total", items, window=4, ordered=True)]
    assert [float(each.outputs["y"].item()) for each in outcomes if isinstance(each, Reply)] == [
        float(item["x"].sum()) for item in items
    ]
    assert [verb for verb, _ in store.asked].count("put") == 4  # each large one once, and no small one


async def test_small_items_do_not_wait_for_a_large_one_that_is_stored(
    broker: MemoryBroker, store: FakePayloads
) -> None:
    async def source() -> AsyncIterator[dict[str, Array]]:
        for x in (LARGE, SMALL, SMALL):
            yield {"x": x}

    store.gate.clear()
    async with Client(broker, s3=store) as client, aclosing(client.map("total", source())) as outcomes:
        assert {(await anext(outcomes)).index for _ in range(2)} == {1, 2}
        store.gate.set()
        assert (await anext(outcomes)).index == 0


@pytest.mark.parametrize("plain", [True, False])
async def test_one_that_cannot_be_stored_fails_alone(broker: MemoryBroker, store: FakePayloads, plain: bool) -> None:
    items = [{"x": LARGE}, {"x": SMALL}, {"x": SMALL}]
    store.faults.append(PayloadUnavailable("the store answered 503"))

    async def source() -> AsyncIterator[dict[str, Array]]:
        for item in items:
            yield item

    async with Client(broker, s3=store) as client:
        chosen = items if plain else source()
        outcomes = [each async for each in client.map("total", chosen, ordered=True)]
        assert client.counters.pending == 0
    assert [type(each) for each in outcomes] == [PayloadUnavailable, Reply, Reply]


async def test_a_store_that_hangs_ends_with_the_deadline(broker: MemoryBroker, store: FakePayloads) -> None:
    store.gate.clear()
    async with Client(broker, s3=store) as client:
        with pytest.raises((PayloadUnavailable, DeadlineExceeded)):
            await client.infer("total", {"x": LARGE}, deadline_s=0.2)
        assert (client.counters.pending, store.waiting) == (0, 0)
        store.gate.set()
        assert isinstance(await client.infer("total", {"x": LARGE}), Reply)


async def test_nothing_is_published_for_an_infer_that_is_cancelled_while_it_stores(
    broker: MemoryBroker, store: FakePayloads
) -> None:
    store.gate.clear()
    async with Client(broker, s3=store) as client:
        asking = asyncio.create_task(client.infer("total", {"x": LARGE}))
        await until(lambda: store.waiting > 0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        store.gate.set()
        await asyncio.sleep(0)
    assert await requests_of(broker, "total", "interactive") == []


async def test_a_stored_request_expires_some_time_after_its_deadline(broker: MemoryBroker, store: FakePayloads) -> None:
    async with Client(broker, s3=store) as client:
        await client.publish("total", {"x": LARGE}, deadline_s=60)
    [request] = await requests_of(broker, "total", "async")
    assert request.ref is not None
    assert request.deadline_ms is not None
    assert request.ref.expires_ms == request.deadline_ms + MARGIN_MS
    assert claim_expiry_ms(1000, None) == 1000 + KEPT_MS + MARGIN_MS


def lost(store: FakePayloads) -> None:
    store.objects.clear()


def swapped(store: FakePayloads) -> None:
    for each in store.objects.values():
        each.data = each.data[:-1] + b"?"


@pytest.mark.parametrize("harm", [lost, swapped])
async def test_a_stored_reply_that_is_gone_is_a_typed_error(
    broker: MemoryBroker, store: FakePayloads, harm: Any
) -> None:
    class Harmed(FakePayloads):
        async def get(self, ref: Any, **limits: Any) -> bytes:
            harm(store)
            return await super().get(ref, **limits)

    mine = Harmed()
    mine.objects = store.objects
    async with Client(broker, s3=mine) as client:
        with pytest.raises(ResultGone) as gone:
            await client.infer("twice", {"x": LARGE}, id="a-1")
    assert (gone.value.code, gone.value.retryable, gone.value.id) == ("INTERNAL", True, "a-1")
    assert gone.value.ref is not None


async def test_a_client_without_a_store_is_told_what_it_lacks(broker: MemoryBroker, store: FakePayloads) -> None:
    small = FakePayloads(S3Settings(claim_bucket="other-bucket", claim_bytes=100))
    ask = {"x": LARGE[:, :200_000]}  # 0.8 MB in, twice that as FP64 out

    def widened(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": inputs["x"].astype(np.float64)}

    async with FakeWorker(broker, "widened", widened, s3=store), Client(broker) as client:
        with pytest.raises(Misconfigured, match=r"Client\(s3=") as refused:
            await client.infer("widened", ask)
        assert refused.value.ref is not None
        async with Client(broker, s3=FakePayloads(S3Settings(buckets=small.settings.buckets))) as other:
            with pytest.raises(Misconfigured, match="HEADRACE_S3_BUCKETS"):
                await other.infer("widened", ask)


async def test_a_fetch_ends_when_nobody_waits_for_it_any_more(broker: MemoryBroker, store: FakePayloads) -> None:
    mine = FakePayloads()
    mine.objects = store.objects
    async with Client(broker, s3=mine) as client:
        asking = asyncio.create_task(client.infer("twice", {"x": LARGE}))
        await until(lambda: any(verb == "put" for verb, _ in store.asked))  # the worker stores its reply
        mine.gate.clear()
        await until(lambda: mine.waiting > 0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0.01)
        assert mine.waiting == 0


async def test_a_result_that_is_to_be_stored_leaves_a_pointer_that_readers_may_follow(
    broker: MemoryBroker, store: FakePayloads
) -> None:
    async with Client(broker, s3=store) as client:
        await client.publish("twice", {"x": SMALL}, id="a-1", reply_to="s3://results/nightly/")
        pointer: Reply | HeadraceError | None = None
        while pointer is None:
            for partition in range(2):
                for record in await records_of(broker, Topics().results("twice"), partition):
                    pointer = decode_reply_record(record.value)
        assert isinstance(pointer, Reply)
        assert pointer.ref is not None
        assert (pointer.ref.uri, pointer.outputs) == ("s3://results/nightly/a-1.msgpack", {})
        whole = await client.resolve(pointer)
        np.testing.assert_array_equal(whole.outputs["y"], SMALL * 2)
        assert await client.resolve(whole) is whole


async def test_an_error_that_is_stored_is_raised_when_it_is_resolved(broker: MemoryBroker, store: FakePayloads) -> None:
    async with (
        FakeWorker(broker, "fails", InferenceFailed("no"), s3=store),
        Client(broker, s3=store) as client,
    ):
        await client.publish("fails", {"x": SMALL}, id="a-1", reply_to="s3://results/")
        await until(lambda: "s3://results/a-1.msgpack" in store.objects)
        [(uri, _)] = store.objects.items()
        with pytest.raises(InferenceFailed):
            await client.resolve(Reply("a-1", "fails", "1", {}, ref=DataRef(uri)))
        with pytest.raises(ResultGone, match="another request"):
            await client.resolve(Reply("a-2", "fails", "1", {}, ref=DataRef(uri)))
