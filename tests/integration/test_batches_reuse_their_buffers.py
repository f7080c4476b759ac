"""In the steady state a batch takes no memory of its own: its inputs go straight into buffers that are always there."""

import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from runner_rig import model_spec
from scripted_runner import LEDGER, LIMIT, RECORD, SCRIBE

from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.run import Device
from workers.runners.engine import TensorSpec
from workers.runners.handle import RESERVED, RunnerProcess
from workers.runners.load import make_runner
from workers.work import Batch, Source, Work

RECORDS, WIDTH = 64, 1024
BATCH_BYTES = RECORDS * WIDTH * 4
WIDE = (TensorSpec("x", Datatype.FP32, (WIDTH,)),)
ONE = (TensorSpec("y", Datatype.FP32, (1,)),)
FIRST = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'][:, :1]}\n"


def wide_batch() -> Batch:
    tensor = Tensor.from_array(np.ones((1, WIDTH), np.float32))
    source = Source(LEDGER, 0)
    works = [
        Work(Request(f"id-{n}", {"x": tensor}), source, RECORD, Lane.ASYNC, 1, WIDTH * 4, (), 0.0, None)
        for n in range(RECORDS)
    ]
    return Batch.of(works)


@pytest.fixture(params=["process", "inline"])
async def device(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Device]:
    spec = model_spec(tmp_path, FIRST, inputs=WIDE, outputs=ONE, max_batch_size=RECORDS, isolation=request.param)
    device = Device(lambda: make_runner(spec), LIMIT, "m", lambda: None)
    await device.start()
    yield device
    await device.stop(1.0)


async def run(device: Device, batches: int) -> None:
    batch = wide_batch()
    for number in range(batches):
        ran = await device.run(number % device.slots, batch, SCRIBE)
        assert {outcome.code for outcome in ran.outcomes} == {"OK"}


async def test_batches_leave_no_object_behind(device: Device) -> None:
    await run(device, 20)
    gc.collect()
    before = sys.getallocatedblocks()
    await run(device, 200)
    gc.collect()
    assert sys.getallocatedblocks() - before < 100  # half of one a batch


async def test_a_batch_takes_a_fraction_of_its_size_at_any_time(device: Device) -> None:
    batch = wide_batch()
    await run(device, 20)
    gc.collect()
    tracemalloc.start()
    try:
        await device.run(0, batch, SCRIBE)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        for slot in (0, 1) * 10:
            await device.run(slot, batch, SCRIBE)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < BATCH_BYTES / 2  # what there is are the replies
    assert after - before < 20_000


async def test_shared_memory_does_not_grow(tmp_path: Path) -> None:
    spec = model_spec(tmp_path, FIRST, inputs=WIDE, outputs=ONE, max_batch_size=RECORDS)
    runner = RunnerProcess(spec)
    device = Device(lambda: runner, LIMIT, "m", lambda: None)
    await device.start()
    regions = [*runner._inputs, *runner._outputs]
    await run(device, RESERVED + 1)  # the third slot is for short runs, and reserves when it is first used
    before = [id(region.view.obj) for region in regions]
    for slot in range(RESERVED + 1):
        await device.run(slot, wide_batch(), SCRIBE)
    assert [id(region.view.obj) for region in regions] == before
    await device.stop(1.0)
