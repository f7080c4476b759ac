"""Requests of every shape that a model takes, and of every lane, get their own answers."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker
from producer_sdk.memory import MemoryBroker

SUM = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"].sum(axis=1) + inputs["k"]}
"""
COUNT = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] + 1}
"""
MASKED = """
class Model:
    def predict(self, inputs):
        assert inputs["x"].shape[1] % 4 == 0
        return {"y": inputs["x"] * 2, "n": inputs["mask"].sum(1)}
"""


def fp32(name: str, *shape: int, **more: Any) -> list[dict[str, object]]:
    return [{"name": name, "datatype": "FP32", "shape": list(shape), **more}]


async def test_records_of_other_widths_and_other_unbatched_inputs_never_share_a_batch_and_all_are_right(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    takes = fp32("x", -1) + fp32("k", 1, batched=False)
    models = python_model(tmp_path, "m", SUM, inputs=takes, outputs=fp32("y"), max_wait_ms=20)
    asked = [(width, k) for width in range(1, 6) for k in range(3)] * 4
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        inputs = ({"x": np.ones((2, w), np.float32), "k": np.array([k], np.float32)} for w, k in asked)
        replies = [each async for each in client.map("m", inputs, ordered=True)]
        assert worker.loops[0].metrics.batches < len(asked)
    assert [r.outputs["y"].tolist() for r in replies if not isinstance(r, HeadraceError)] == [
        [w + k] * 2 for w, k in asked
    ]


async def test_records_of_other_widths_share_batches_where_they_are_padded_and_see_no_padding(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    takes = fp32("x", -1, pad_to=[4, 8], mask="mask") + fp32("mask", -1)
    gives = fp32("y", -1, cut_like="x") + fp32("n")
    models = python_model(tmp_path, "m", MASKED, inputs=takes, outputs=gives, max_wait_ms=20)
    asked = [np.full((1 + n % 2, 1 + n % 9), n, np.float32) for n in range(40)]
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        replies = [each async for each in client.map("m", ({"x": x} for x in asked), ordered=True)]
        assert worker.loops[0].metrics.batches < len(asked)
    for x, reply in zip(asked, replies, strict=True):
        assert isinstance(reply, Reply), reply
        assert np.array_equal(reply.outputs["y"], x * 2)
        assert reply.outputs["n"].tolist() == [x.shape[1]] * len(x)


async def test_a_model_of_single_numbers_refuses_a_number_without_a_row_axis_and_serves_on(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", COUNT, inputs=fp32("x"), outputs=fp32("y"))
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        asked = [np.float32(1), np.ones(1, np.float32), np.arange(3, dtype=np.float32)]
        replies = [each async for each in client.map("m", ({"x": x} for x in asked), ordered=True)]
    assert [getattr(each, "code", "OK") for each in replies] == ["INVALID_REQUEST", "OK", "OK"]
    assert "has shape [], but the model takes [rows]" in str(replies[0])


async def test_batches_whose_inputs_or_outputs_fill_the_memory_of_a_slot_cost_nobody_an_answer(
    prefix: str, tmp_path: Path
) -> None:
    broker = MemoryBroker()
    models = python_model(tmp_path, "m", COUNT, inputs=fp32("x", -1), outputs=fp32("y", -1), max_wait_ms=20)
    async with (
        running_worker(broker, models, prefix, max_batch_bytes=4096) as worker,
        Client(broker, prefix=prefix) as client,
    ):
        # Ten inputs of 408 bytes fit, but ten such outputs and what lies in front of them do not.
        inputs = ({"x": np.full((1, 102 if n % 2 else 900), n, np.float32)} for n in range(60))
        replies = [each async for each in client.map("m", inputs, ordered=True)]
        assert worker.loops[0].metrics.batches >= 30 + 3
    assert [getattr(each, "code", "OK") for each in replies] == ["OK"] * 60
    assert [each.outputs["y"][0, -1] for each in replies if isinstance(each, Reply)] == list(range(1, 61))


async def test_an_interactive_request_overtakes_the_others_that_wait(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    order: list[str] = []

    async def ask(client: Client, lane: Any, seconds: float) -> None:
        await client.infer("m", {"x": np.array([[seconds, 1]], np.float32)}, lane=lane)
        order.append(lane)

    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        first = [asyncio.create_task(ask(client, "bulk", 1.0)) for _ in range(2)]
        await until(lambda: worker.loops[0].blockers().startswith("model m: 2 batches on the device"))
        behind = [asyncio.create_task(ask(client, lane, 0.05)) for lane in ("bulk", "bulk", "async", "interactive")]
        await until(lambda: "4 requests waiting" in worker.loops[0].blockers())
        await asyncio.gather(*first, *behind)
    assert order == ["bulk", "bulk", "interactive", "async", "bulk", "bulk"]
