"""A model in a thread behaves as one in a process, as far as a thread can."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from model_folders import DOUBLE, SLEEPY
from runner_rig import batch, floats, model_spec, output, run_all, started_inline, work

from producer_sdk.errors import Code
from producer_sdk.tensors import Datatype
from workers.runners.engine import LoadFailed, LoadFault, TensorSpec
from workers.runners.inline import InlineRunner
from workers.runners.load import make_engine, make_runner
from workers.runners.placing import place
from workers.runners.runner import RunnerDied
from workers.runners.shm import Heap

FAILING = "class Model:\n    def predict(self, inputs):\n        raise ValueError('no')\n"
SIGNATURES = [
    ("def predict(self, inputs): pass", False),
    ("def predict(self, inputs, parameters): pass", True),
    ("def predict(self, inputs, parameters=None): pass", True),
    ("def predict(self, inputs, debug=False): pass", False),
    ("def predict(self, *args): pass", True),
]


async def test_records_run_in_parts_and_outputs_grow(tmp_path: Path) -> None:
    async with started_inline(model_spec(tmp_path, DOUBLE)) as runner:
        answer = await run_all(runner, batch(floats((1, 2)), floats((3, 4), (5, 6))))
        assert output(answer).tolist() == [[2, 4], [6, 8], [10, 12]]
        assert output(await runner.run(0, 1, 2)).tolist() == [[6, 8], [10, 12]]


async def test_a_fault_of_the_model_is_an_answer(tmp_path: Path) -> None:
    async with started_inline(model_spec(tmp_path, FAILING)) as runner:
        answer = await run_all(runner, batch(floats((1, 2))))
        assert answer.error is not None
        assert (answer.error.code, answer.error.message) == (Code.INFERENCE_FAILED, "ValueError: no")


async def test_a_run_over_its_time_limit_is_given_up_and_blamed(tmp_path: Path) -> None:
    async with started_inline(model_spec(tmp_path, SLEEPY, attempt_timeout_s=0.1)) as runner:
        runner.place(0, batch(floats((0.5, 0))))
        runner.place(1, batch(floats((0, 0))))
        deaths = await asyncio.gather(runner.run(0, 0, 1), runner.run(1, 0, 1), return_exceptions=True)
        assert [isinstance(death, RunnerDied) and death.started for death in deaths] == [True, False]


async def test_a_model_that_cannot_load_says_so(tmp_path: Path) -> None:
    runner = InlineRunner(model_spec(tmp_path, "import no_such_package"))
    with pytest.raises(LoadFailed) as failed:
        await runner.start()
    await runner.stop()
    assert failed.value.kind is LoadFault.DEPENDENCY


@pytest.mark.parametrize(("method", "takes_parameters"), SIGNATURES)
def test_predict_may_ask_for_parameters(tmp_path: Path, method: str, takes_parameters: bool) -> None:
    engine = make_engine("python")
    engine.load(model_spec(tmp_path, f"class Model:\n    {method}\n"))
    assert engine.__dict__["_takes_parameters"] is takes_parameters


@pytest.mark.parametrize(
    "method", ["def predict(self): pass", "def predict(self, a, b, c): pass", "async def predict(self, inputs): pass"]
)
def test_a_predict_that_cannot_be_called_is_refused(tmp_path: Path, method: str) -> None:
    with pytest.raises(LoadFailed, match="predict"):
        make_engine("python").load(model_spec(tmp_path, f"class Model:\n    {method}\n"))


def test_an_unknown_engine_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(LoadFailed, match="engine 'tensorrt' is not known: use one of onnxruntime, python"):
        make_engine("tensorrt")


def test_the_isolation_of_a_model_decides_its_runner(tmp_path: Path) -> None:
    spec = model_spec(tmp_path, DOUBLE, isolation="inline")
    assert isinstance(make_runner(spec), InlineRunner)


def test_requests_whose_unbatched_inputs_differ_never_share_a_batch() -> None:
    specs = (TensorSpec("x", Datatype.FP32, (2,)), TensorSpec("t", Datatype.FP32, (), batched=False))
    works = [work({"x": np.ones((1, 2), np.float32), "t": np.float32(t)}) for t in (1, 2)]
    with pytest.raises(ValueError, match="unbatched inputs differ"):
        place(batch(*works), specs, Heap(), 1000)
