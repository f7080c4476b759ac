"""Type-tests of the SDK's public face: checked by mypy, never executed."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from producer_sdk import Client, Counters, HeadraceError, Reply, Tensor, UnknownModel
from producer_sdk import sync as blocking
from producer_sdk.memory import MemoryBroker


async def batches() -> AsyncIterator[dict[str, NDArray[np.float32]]]:
    yield {"x": np.zeros((1, 4), np.float32)}


async def asynchronous() -> None:
    async with Client("localhost:9092", encoding="json", prefix="headrace", max_pending=10) as client:
        assert_type(client, Client)
        reply = await client.infer("mlp", {"x": np.zeros((1, 4), np.float32), "text": ["a"]}, id="a", deadline_s=1)
        assert_type(reply, Reply)
        assert_type(reply.outputs, dict[str, NDArray[Any]])
        assert_type(reply.index, int | None)
        assert_type(await client.publish("mlp", {"x": Tensor.from_array([1.0])}, reply_to="headrace.here:3"), str)
        outcomes = client.map("mlp", [{"x": [[1.0]]}], window=8, ordered=True, parameters={"k": 3})
        assert_type(outcomes, AsyncGenerator[Reply | HeadraceError, None])
        async for outcome in client.map("mlp", batches()):
            assert_type(outcome, Reply | HeadraceError)
            assert_type(outcome.index, int | None)
        await client.cancel("a")
        assert_type(client.counters, Counters)
        await client.infer("mlp", {"x": 1}, deadline_s=None)  # type: ignore[arg-type]
        await client.infer("mlp", {"x": 1}, priority=1)  # type: ignore[call-arg]
    Client(MemoryBroker())
    Client("localhost:9092", encoding=1)  # type: ignore[arg-type]


def synchronous() -> None:
    with blocking.Client("localhost:9092") as client:
        assert_type(client, blocking.Client)
        assert_type(client.infer("mlp", {"x": np.zeros(3)}), Reply)
        assert_type(client.publish("mlp", {"x": np.zeros(3)}), str)
        client.cancel("a")
        assert_type(client.map("mlp", [{"x": np.zeros(3)}], window=4), Iterator[Reply | HeadraceError])


def errors(error: HeadraceError, unknown: UnknownModel) -> None:
    assert_type(error.code, str)
    assert_type(error.retryable, bool)
    assert_type(unknown.id, str | None)
    assert_type(HeadraceError.from_code("QUEUE_FULL", "full"), HeadraceError)
