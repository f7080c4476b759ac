"""A producer can be tested without a worker: the fake one answers on any broker."""

import numpy as np
import pytest

from producer_sdk import Client, InferenceFailed, OutOfMemory, PayloadTooLarge
from producer_sdk.broker import Broker
from producer_sdk.tensors import Array
from producer_sdk.testing import FakeWorker

ROW = np.ones((1, 4), np.float32)


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


async def test_the_answer_is_the_reply(broker: Broker, prefix: str) -> None:
    worker = FakeWorker(broker, "m", double, version="7", prefix=prefix)
    async with worker, Client(broker, prefix=prefix) as client:
        reply = await client.infer("m", {"x": ROW}, parameters={"a": 1})
    assert np.array_equal(reply.outputs["y"], ROW * 2)
    assert (reply.version, [request.parameters["a"] for request in worker.received]) == ("7", [1])


async def test_a_json_client_gets_its_answer_in_json(broker: Broker, prefix: str) -> None:
    async with FakeWorker(broker, "m", double, prefix=prefix), Client(broker, prefix=prefix, encoding="json") as client:
        assert np.array_equal((await client.infer("m", {"x": ROW})).outputs["y"], ROW * 2)


async def test_an_exception_in_place_of_an_answer_is_the_error_reply(broker: Broker, prefix: str) -> None:
    async with FakeWorker(broker, "m", OutOfMemory("full"), prefix=prefix), Client(broker, prefix=prefix) as client:
        with pytest.raises(OutOfMemory, match="full"):
            await client.infer("m", {"x": ROW})


async def test_what_the_answer_raises_is_the_error_reply_and_the_next_is_answered(broker: Broker, prefix: str) -> None:
    def picky(inputs: dict[str, Array]) -> dict[str, Array]:
        if not inputs["x"][0, 0]:
            raise ZeroDivisionError
        return double(inputs)

    async with FakeWorker(broker, "m", picky, prefix=prefix), Client(broker, prefix=prefix) as client:
        with pytest.raises(InferenceFailed, match="ZeroDivisionError"):
            await client.infer("m", {"x": ROW * 0})
        assert np.array_equal((await client.infer("m", {"x": ROW})).outputs["y"], ROW * 2)


async def test_a_reply_too_large_for_the_broker_is_an_error_reply(broker: Broker, prefix: str) -> None:
    def huge(inputs: dict[str, Array]) -> dict[str, Array]:
        return {"y": np.zeros((1, 2_000_000), np.uint8)}

    async with FakeWorker(broker, "m", huge, prefix=prefix), Client(broker, prefix=prefix) as client:
        with pytest.raises(PayloadTooLarge, match="at most"):
            await client.infer("m", {"x": ROW})
