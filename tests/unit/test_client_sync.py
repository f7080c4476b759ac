"""The blocking client: same verbs, one thread, nothing left behind."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import producer_sdk
from producer_sdk import Cancelled, HeadraceError, InvalidRequest, Reply, UnknownModel, _window
from producer_sdk._sync_map import MAX_UNSENT
from producer_sdk.model_topics import model_topics
from producer_sdk.sync import Client
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


@pytest.fixture
def client() -> Iterator[Client]:
    """A client where the model `double` answers and the model `silent` has topics and no worker."""
    broker = MemoryBroker()
    worker = FakeWorker(broker, "double", double)
    with Client(broker) as client:
        # All clients of a broker in memory belong to one loop, and this one's is the client's own.
        client._wait_for(enter(broker, worker))
        yield client
        client._wait_for(worker.__aexit__(None, None, None))


async def enter(broker: MemoryBroker, worker: FakeWorker) -> None:
    await broker.admin().create_topics(model_topics(Topics(), "silent"))
    await worker.__aenter__()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def value_of(outcome: Reply | HeadraceError) -> int:
    assert isinstance(outcome, Reply)
    return int(outcome.outputs["y"])


def test_infer_and_publish_block_until_done(client: Client) -> None:
    reply = client.infer("double", {"x": np.arange(3)}, id="job-1")
    np.testing.assert_array_equal(reply.outputs["y"], [0, 2, 4])
    assert client.publish("silent", {"x": 1}, id="job-2") == "job-2"
    assert client.counters.answered == 1


def test_errors_are_raised_in_the_calling_thread(client: Client) -> None:
    with pytest.raises(UnknownModel):
        client.infer("nope", {"x": 1})
    with pytest.raises(InvalidRequest):
        client.publish("double", {"x": 1}, id="a b")


def test_map_gives_a_plain_iterator_over_all_outcomes(client: Client) -> None:
    outcomes = list(client.map("double", ({"x": n} for n in range(300)), window=16))
    assert {outcome.index: value_of(outcome) for outcome in outcomes} == {n: 2 * n for n in range(300)}


def test_map_keeps_the_order_when_asked(client: Client) -> None:
    outcomes = client.map("double", ({"x": n} for n in range(100)), window=16, ordered=True)
    assert [outcome.index for outcome in outcomes] == list(range(100))


def test_map_pulls_in_the_calling_thread_and_at_most_a_window_ahead(client: Client) -> None:
    pulled: list[str] = []

    def source() -> Iterator[dict[str, int]]:
        for n in range(100):
            pulled.append(threading.current_thread().name)
            yield {"x": n}

    for yielded, _ in enumerate(client.map("double", source(), window=8)):
        assert len(pulled) - yielded <= 8
    assert set(pulled) == {threading.current_thread().name}


def test_map_keeps_few_items_while_the_bytes_of_the_window_are_used_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_window, "MAX_BYTES_OUT", 1)
    pulled = 0

    def source() -> Iterator[dict[str, int]]:
        nonlocal pulled
        for pulled in range(1, 1001):
            yield {"x": pulled}

    next(client.map("double", source(), window=1000))
    assert pulled <= MAX_UNSENT + 8
    assert len(list(client.map("double", ({"x": n} for n in range(100)), window=1000))) == 100


def test_leaving_a_map_early_forgets_what_is_out(client: Client) -> None:
    for _ in client.map("double", ({"x": n} for n in range(1000)), window=16):
        break
    assert value_of(client.infer("double", {"x": 4})) == 8
    assert client.counters.pending == 0


def test_a_bad_item_is_a_value_and_a_bad_model_is_raised(client: Client) -> None:
    outcomes = list(client.map("double", [{"x": 1}, {"x": object()}], ordered=True))
    assert [type(outcome) for outcome in outcomes] == [Reply, InvalidRequest]
    with pytest.raises(UnknownModel):
        next(client.map("nope", [{"x": 1}]))
    with pytest.raises(InvalidRequest):
        client.map("double", [], window=0)


def test_the_iterables_own_exception_comes_after_the_outcomes_before_it(client: Client) -> None:
    def source() -> Iterator[dict[str, int]]:
        yield {"x": 1}
        raise OSError("the file ends early")

    outcomes = client.map("double", source())
    assert value_of(next(outcomes)) == 2
    with pytest.raises(OSError, match="ends early"):
        next(outcomes)


def test_many_threads_may_share_a_client(client: Client) -> None:
    got: dict[int, int] = {}

    def ask(number: int) -> None:
        got[number] = value_of(client.infer("double", {"x": number}))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: 2 * number for number in range(20)}


def test_close_ends_a_call_of_another_thread_with_a_typed_error() -> None:
    broker, raised = MemoryBroker(), []
    asked = Client(broker)

    def ask() -> None:
        with pytest.raises(Cancelled) as error:
            asked.infer("silent", {"x": 1})
        raised.append(error.value)

    with asked:
        asked._wait_for(create_silent(broker))
        thread = threading.Thread(target=ask)
        thread.start()
        while asked.counters.pending == 0:
            thread.join(0.01)
    thread.join()
    assert len(raised) == 1


async def create_silent(broker: MemoryBroker) -> None:
    await broker.admin().create_topics(model_topics(Topics(), "silent"))


def test_close_ends_a_map_with_a_typed_error() -> None:
    broker = MemoryBroker()
    client = Client(broker)
    client.start()
    client._wait_for(create_silent(broker))
    outcomes = client.map("silent", ({"x": n} for n in range(100)), window=2)
    closing = threading.Timer(0.1, client.close)
    closing.start()
    assert isinstance(next(outcomes), Cancelled)
    with pytest.raises(Cancelled):
        list(outcomes)
    closing.join()


def test_a_client_says_when_it_is_not_started_or_closed_already() -> None:
    client = Client(MemoryBroker())
    with pytest.raises(RuntimeError, match="not started"):
        client.infer("double", {"x": 1})
    client.start()
    client.close()
    client.close()
    with pytest.raises(Cancelled, match="closed"):
        client.publish("double", {"x": 1})
    with pytest.raises(RuntimeError, match="once"):
        client.start()


def test_a_failed_start_leaves_no_thread() -> None:
    class Unreachable(MemoryBroker):
        def admin(self) -> Any:
            raise producer_sdk.BrokerError("no broker answers")

    with pytest.raises(producer_sdk.BrokerError, match="no broker answers"):
        Client(Unreachable()).start()


@pytest.mark.parametrize("verb", ["__init__", "infer", "publish", "map"])
def test_both_clients_take_the_same_arguments(verb: str) -> None:
    blocking = inspect.signature(getattr(Client, verb)).parameters
    asynchronous = inspect.signature(getattr(producer_sdk.Client, verb)).parameters
    assert list(blocking) == list(asynchronous)
    assert [p.default for p in blocking.values()] == [p.default for p in asynchronous.values()]


def test_a_client_works_beside_a_running_loop() -> None:
    async def main() -> int:
        broker = MemoryBroker()
        with Client(broker) as client:
            client._wait_for(create_silent(broker))
            await asyncio.to_thread(client.publish, "silent", {"x": 1})
            return client.counters.pending

    assert asyncio.run(main()) == 0
