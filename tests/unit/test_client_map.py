"""`Client.map` on the broker in memory."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import numpy as np
import pytest

from producer_sdk import (
    Cancelled,
    Client,
    DeadlineExceeded,
    HeadraceError,
    InvalidRequest,
    Reply,
    UnknownModel,
    _window,
)
from producer_sdk.broker import BrokerError
from producer_sdk.model_topics import model_topics
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


class Pulled:
    """An iterable that counts what was pulled from it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pulled = 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        for number in range(self.count):
            self.pulled += 1
            yield {"x": number}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client where the model `double` answers and the model `silent` has topics and no worker."""
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    async with FakeWorker(broker, "double", double), Client(broker) as client:
        yield client


def value_of(outcome: Reply | HeadraceError) -> int:
    assert isinstance(outcome, Reply)
    return int(outcome.outputs["y"])


async def collect(outcomes: AsyncIterator[Reply | HeadraceError], into: list[Reply | HeadraceError]) -> None:
    async for outcome in outcomes:
        into.append(outcome)


@pytest.mark.parametrize("window", [1, 7, 64, 1000])
async def test_every_item_gets_the_outcome_of_its_place(client: Client, window: int) -> None:
    outcomes = [outcome async for outcome in client.map("double", Pulled(300), window=window)]
    assert {outcome.index: value_of(outcome) for outcome in outcomes} == {n: 2 * n for n in range(300)}
    assert len(outcomes) == 300
    assert client.counters.pending == 0


async def test_ordered_keeps_the_order_of_the_iterable(client: Client) -> None:
    outcomes = [outcome async for outcome in client.map("double", Pulled(300), window=50, ordered=True)]
    assert [outcome.index for outcome in outcomes] == list(range(300))


async def test_an_asynchronous_iterable_is_taken_too(client: Client) -> None:
    async def source() -> AsyncIterator[dict[str, int]]:
        for n in range(100):
            await asyncio.sleep(0)
            yield {"x": n}

    outcomes = [outcome async for outcome in client.map("double", source(), window=10)]
    assert sorted(value_of(outcome) for outcome in outcomes) == [2 * n for n in range(100)]


async def test_replies_are_yielded_while_the_iterable_waits(client: Client) -> None:
    go_on = asyncio.Event()

    async def source() -> AsyncIterator[dict[str, int]]:
        yield {"x": 1}
        await go_on.wait()
        yield {"x": 2}

    async with aclosing(client.map("double", source())) as outcomes:
        assert value_of(await anext(outcomes)) == 2
        go_on.set()
        assert value_of(await anext(outcomes)) == 4


async def test_never_more_than_a_window_is_pulled_ahead_of_what_was_yielded(client: Client) -> None:
    source, yielded = Pulled(200), 0
    async for _ in client.map("double", source, window=8):
        yielded += 1
        await asyncio.sleep(0.001)
        assert source.pulled - yielded <= 8
    assert yielded == 200


async def test_a_silent_model_stops_the_pulling_at_the_window(client: Client) -> None:
    source = Pulled(1000)
    async with aclosing(client.map("silent", source, window=16)) as outcomes:
        waiting = asyncio.ensure_future(anext(outcomes))
        await asyncio.sleep(0.1)
        assert (source.pulled, client.counters.pending) == (16, 16)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_without_a_window_it_is_256_or_what_may_be_pending() -> None:
    broker, pulled = MemoryBroker(), []
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    for most in (10_000, 9):
        source = Pulled(1000)
        async with Client(broker, max_pending=most) as client, aclosing(client.map("silent", source)) as outcomes:
            waiting = asyncio.ensure_future(anext(outcomes))
            await asyncio.sleep(0.2)
            pulled.append(source.pulled)
            waiting.cancel()
            await asyncio.wait([waiting])
    assert pulled == [256, 9]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_requests_without_an_outcome_are_bounded_in_bytes(
    client: Client, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    monkeypatch.setattr(_window, "MAX_BYTES_OUT", 100_000)
    pulled = 0

    def rows() -> Iterator[dict[str, Array]]:
        nonlocal pulled
        for _ in range(30):
            pulled += 1
            yield {"x": np.zeros((1, 4000))}

    async def later() -> AsyncIterator[dict[str, Array]]:
        for row in rows():
            yield row

    async with aclosing(client.map("silent", later() if asynchronous else rows(), deadline_s=0.3)) as outcomes:
        waiting = asyncio.ensure_future(anext(outcomes))
        await asyncio.sleep(0.2)
        assert pulled in (4, 5)  # of 32 kB each; an asynchronous one may be pulled before there is room
        assert isinstance(await waiting, DeadlineExceeded)
        assert len([outcome async for outcome in outcomes]) == 29


async def test_a_bad_item_is_an_error_at_its_place_and_not_the_end(client: Client) -> None:
    items = [{"x": 1}, {"x": object()}, "no mapping", {"x": 4}]
    outcomes = [outcome async for outcome in client.map("double", items, ordered=True)]  # type: ignore[arg-type]
    assert [type(outcome) for outcome in outcomes] == [Reply, InvalidRequest, InvalidRequest, Reply]
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3]


async def test_an_item_above_the_limit_is_an_error_at_its_place(client: Client) -> None:
    items = [{"x": np.zeros(3)}, {"x": np.zeros(2_000_000)}, {"x": np.ones(3)}]
    outcomes = [outcome async for outcome in client.map("double", items, window=64, ordered=True)]
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [None, "PAYLOAD_TOO_LARGE", None]


async def test_a_refused_publish_is_an_error_for_each_of_its_items() -> None:
    broker = MemoryBroker()
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    broker.fail_publish("headrace.silent.async", BrokerError("the disk is full"))
    async with Client(broker) as client:
        outcomes = [outcome async for outcome in client.map("silent", Pulled(40), window=32)]
    assert sorted(outcome.index or 0 for outcome in outcomes) == list(range(40))
    assert len({outcome.id for outcome in outcomes}) == 40
    assert all(isinstance(outcome, BrokerError) for outcome in outcomes)


async def test_items_past_their_deadline_are_errors_and_the_map_goes_on(client: Client) -> None:
    outcomes = [outcome async for outcome in client.map("silent", Pulled(6), window=3, deadline_s=0.05)]
    assert [type(outcome) for outcome in outcomes] == [DeadlineExceeded] * 6


async def test_closing_early_forgets_what_is_out(client: Client) -> None:
    async with aclosing(client.map("double", Pulled(1000), window=32)) as outcomes:
        await anext(outcomes)
    assert client.counters.pending == 0
    assert value_of(await client.infer("double", {"x": 3})) == 6


async def test_leaving_the_loop_forgets_what_is_out(client: Client) -> None:
    async for _ in client.map("double", Pulled(1000), window=32):
        break
    gc.collect()
    await asyncio.sleep(0.05)
    assert client.counters.pending == 0


async def test_the_iterables_own_exception_comes_after_the_outcomes_before_it(client: Client) -> None:
    def source() -> Iterator[dict[str, int]]:
        yield {"x": 1}
        yield {"x": 2}
        raise OSError("the file ends early")

    outcomes: list[Reply | HeadraceError] = []
    with pytest.raises(OSError, match="ends early"):
        await collect(client.map("double", source(), ordered=True), outcomes)
    assert [value_of(outcome) for outcome in outcomes] == [2, 4]


async def test_an_empty_iterable_gives_nothing(client: Client) -> None:
    assert [outcome async for outcome in client.map("double", [])] == []


async def test_an_unknown_model_is_raised_and_nothing_is_pulled(client: Client) -> None:
    source = Pulled(10)
    with pytest.raises(UnknownModel):
        await anext(client.map("nope", source))
    assert source.pulled == 0


@pytest.mark.parametrize("wrong", [{"window": 0}, {"window": 10_001}, {"deadline_s": -1}, {"lane": "fast"}])
async def test_a_bad_argument_is_raised_at_the_call(client: Client, wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRequest):
        client.map("double", [], **wrong)  # type: ignore[arg-type]


async def test_closing_the_client_ends_the_map_with_a_typed_error(client: Client) -> None:
    outcomes = client.map("silent", Pulled(1_000_000), window=4)
    first = asyncio.ensure_future(anext(outcomes))
    await asyncio.sleep(0.05)
    await client.close()
    assert isinstance(await first, Cancelled)
    rest: list[Reply | HeadraceError] = []
    with pytest.raises(Cancelled):
        await collect(outcomes, rest)
    assert len(rest) == 3
