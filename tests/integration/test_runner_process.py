"""Batches reach the runner process and come back whole, while the worker's loop goes on undisturbed."""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from model_folders import BULKY, DOUBLE, GIL_HOLDING
from runner_rig import batch, floats, model_spec, output, run_all, started, work

from producer_sdk.errors import Code, PayloadTooLarge
from producer_sdk.tensors import Datatype
from workers.runners.engine import LoadFailed, LoadFault, TensorSpec
from workers.runners.handle import RunnerProcess

UINT8S = (TensorSpec("y", Datatype.UINT8, (-1,)),)
TEXTS = (TensorSpec("x", Datatype.BYTES, (1,)),)
POISONED_ROWS = """
class Model:
    def predict(self, inputs):
        return [ValueError("cannot digest 666") if row[0] == 666 else {"y": row * 2} for row in inputs["x"]]
"""
SUMMING = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'].sum(1, keepdims=True)}\n"
SHOUTING = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'] + b'!'}\n"
SCALING = """
import numpy as np

class Model:
    def predict(self, inputs, parameters):
        return {"y": inputs["x"] * np.array([[row.get("by", 1)] for row in parameters], np.float32)}
"""
SPOILING = "class Model:\n    def predict(self, inputs):\n        inputs['x'] *= 2\n        return {'y': inputs['x']}\n"
CHATTY = "class Model:\n    def predict(self, inputs):\n        print('thinking'); return {'y': inputs['x']}\n"
FLOODING = """
import time

class Model:
    def predict(self, inputs):
        for _ in range(20):
            print("flood\\n" * 1000, end="", flush=True)
            time.sleep(0.06)
        print("end")
        return {"y": inputs["x"]}
"""
FLOOD_LINES = 20_000


async def test_parts_of_a_placed_batch_run_without_placing_it_again(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, DOUBLE)) as runner:
        runner.place(0, batch(floats((1, 2)), floats((3, 4), (5, 6)), floats((7, 8))))
        assert output(await runner.run(0, 0, 3)).tolist() == [[2, 4], [6, 8], [10, 12], [14, 16]]
        assert output(await runner.run(0, 1, 3)).tolist() == [[6, 8], [10, 12], [14, 16]]
        assert output(await runner.run(0, 2, 3)).tolist() == [[14, 16]]


async def test_one_poison_row_fails_its_record_alone_and_is_named(tmp_path: Path) -> None:
    rows = [(float(row), 0.0) for row in range(4)]
    poisoned = floats(*rows[:3], (666, 0))
    async with started(model_spec(tmp_path, POISONED_ROWS)) as runner:
        answer = await run_all(runner, batch(*[floats(*rows)] * 20, poisoned, *[floats(*rows)] * 11))
        assert [(part.records, part.rows) for part in answer.parts if part.error is None] == [(20, 80), (11, 44)]
        (error,) = [part.error for part in answer.parts if part.error is not None]
        assert (error.code, error.message) == (Code.INFERENCE_FAILED, "row 3: ValueError: cannot digest 666")


async def test_a_model_that_holds_the_gil_leaves_the_loop_regular(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, GIL_HOLDING)) as runner:
        runner.place(0, batch(floats((3, 0))))
        run = asyncio.create_task(runner.run(0, 0, 1))
        ticks = []
        while not run.done():
            ticks.append(time.monotonic())
            await asyncio.sleep(0.02)
        assert output(await run).tolist() == [[6, 0]]
        assert ticks[-1] - ticks[0] > 2.5
        assert np.diff(ticks).max() < 0.5


async def test_an_output_larger_than_what_was_reserved_arrives(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, BULKY, outputs=UINT8S)) as runner:
        answer = await run_all(runner, batch(floats((20e6, 0))))
        assert output(answer).shape == (1, 20_000_000)


async def test_outputs_of_different_shapes_come_as_several_parts(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, BULKY, outputs=UINT8S)) as runner:
        answer = await run_all(runner, batch(floats((3, 0)), floats((3, 0)), floats((5, 0)), floats((1, 0), (2, 0))))
        assert [part.blocks[0].shape for part in answer.parts[:2]] == [(3,), (5,)]
        error = answer.parts[2].error
        assert error is not None
        assert "the rows of one record must agree" in error.message


async def test_a_variable_shape_grows_the_memory_as_it_needs(tmp_path: Path) -> None:
    variable = (TensorSpec("x", Datatype.FP32, (-1,)),)
    spec = model_spec(tmp_path, SUMMING, inputs=variable, outputs=(TensorSpec("y", Datatype.FP32, (1,)),))
    async with started(spec) as runner:
        for width in (10, 1_000_000, 100):
            answer = await run_all(runner, batch(work({"x": np.ones((2, width), np.float32)})))
            assert output(answer).tolist() == [[width], [width]]


async def test_a_batch_above_the_limit_is_refused_and_the_next_one_runs(tmp_path: Path) -> None:
    variable = (TensorSpec("x", Datatype.FP32, (-1,)),)
    async with started(model_spec(tmp_path, DOUBLE, inputs=variable), max_batch_bytes=100_000) as runner:
        with pytest.raises(PayloadTooLarge, match="a batch holds at most 100000"):
            runner.place(0, batch(work({"x": np.ones((1, 30_000), np.float32)})))
        assert output(await run_all(runner, batch(floats((1, 2))))).tolist() == [[2, 4]]


async def test_outputs_above_the_limit_are_an_error_of_the_run(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, BULKY, outputs=UINT8S), max_batch_bytes=100_000) as runner:
        answer = await run_all(runner, batch(floats((200_000, 0))))
        assert answer.error is not None
        assert answer.error.code == Code.PAYLOAD_TOO_LARGE


async def test_texts_go_in_and_come_out_row_by_row(tmp_path: Path) -> None:
    spec = model_spec(tmp_path, SHOUTING, inputs=TEXTS, outputs=(TensorSpec("y", Datatype.BYTES, (1,)),))
    async with started(spec) as runner:
        records = batch(work({"x": [["a"], ["bb\0"]]}), work({"x": [["über"]]}))
        answer = await run_all(runner, records)
        assert output(answer).tolist() == [[b"a!"], [b"bb\0!"], ["über!".encode()]]
        assert answer.parts[0].blocks[0].row_ends == (6, 14, 24)
        assert output(await runner.run(0, 1, 2)).tolist() == [["über!".encode()]]


async def test_each_row_gets_the_parameters_of_its_record(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SCALING)) as runner:
        x = np.ones((2, 2), np.float32)
        answer = await run_all(runner, batch(work({"x": x}, {"by": 3}), work({"x": x[:1]}), work({"x": x}, {"by": 5})))
        assert output(answer)[:, 0].tolist() == [3, 3, 1, 5, 5]


async def test_parameters_that_cannot_travel_are_an_error_and_not_an_exception(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SCALING)) as runner:
        answer = await run_all(runner, batch(work({"x": np.ones((1, 2), np.float32)}, {"by": 2**70})))
        assert answer.error is not None
        assert answer.error.code == Code.INVALID_REQUEST


async def test_a_model_cannot_spoil_its_inputs_for_a_second_run(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SPOILING)) as runner:
        answer = await run_all(runner, batch(floats((1, 2))))
        assert answer.error is not None
        assert "read-only" in answer.error.message


async def test_what_a_model_prints_is_in_the_workers_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headrace.runner"):
        async with started(model_spec(tmp_path, CHATTY)) as runner:
            await run_all(runner, batch(floats((1, 2))))
    assert "[m:1] thinking" in caplog.messages


async def test_a_flood_of_output_is_cut_and_what_is_left_out_is_counted_to_the_last_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "headrace.runner"):
        async with started(model_spec(tmp_path, FLOODING)) as runner:
            await run_all(runner, batch(floats((1, 2))))
        async with asyncio.timeout(30):
            while sum(said_and_left_out(caplog.messages)) < FLOOD_LINES:  # noqa: ASYNC110 - logs tell nobody
                await asyncio.sleep(0.01)
    said, left_out = said_and_left_out(caplog.messages)
    assert said + left_out <= FLOOD_LINES + 1, "the lines of the flood and `end`"
    assert left_out > FLOOD_LINES / 2


def said_and_left_out(messages: Sequence[str]) -> tuple[int, int]:
    """How many lines of a flood were logged, and how many counted instead."""
    counts = [int(found[1]) for message in messages if (found := re.search(r"\((\d+) more lines left out", message))]
    return sum(message.endswith("flood") for message in messages), sum(counts)


async def test_a_batch_size_that_could_never_fit_is_lowered_with_a_warning(tmp_path: Path) -> None:
    runner = RunnerProcess(model_spec(tmp_path, DOUBLE, max_batch_size=1000), max_batch_bytes=1000)
    loaded = await runner.start()
    await runner.stop()
    assert 100 < loaded.max_batch_size <= 125
    assert f"max_batch_size 1000 is lowered to {loaded.max_batch_size}" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("class Model:\n    def predict(self, inputs) return", LoadFault.FORMAT, "SyntaxError"),
        ("import no_such_package\n", LoadFault.DEPENDENCY, "install the package that holds 'no_such_package'"),
        ("class Model:\n    def load(self, context): open('/no/such')\n", LoadFault.PATH, "line 2"),
        ("class Model:\n    def load(self, context): raise PermissionError('no')\n", LoadFault.PERMISSION, "no"),
        ("class Model: pass\n", LoadFault.FORMAT, "no method predict"),
        ("x = 1\n", LoadFault.FORMAT, "no class Model"),
    ],
)
async def test_a_bad_model_says_what_kind_of_fault_it_has(
    tmp_path: Path, code: str, kind: LoadFault, words: str
) -> None:
    runner = RunnerProcess(model_spec(tmp_path, code))
    with pytest.raises(LoadFailed, match=words) as failed:
        await runner.start()
    assert failed.value.kind is kind
