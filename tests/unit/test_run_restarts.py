"""A device keeps a runner alive, and tells others only what they need to know."""

import asyncio
from collections import Counter

import pytest
from scripted_runner import LIMIT, SCRIBE, Script, batch_of, started, until_ready
from worker_rig import until

from producer_sdk.announcements import ModelState
from workers import keeper
from workers.run import Device
from workers.runners.engine import LoadFailed
from workers.runners.runner import RunnerDied
from workers.work import Batch


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


async def test_while_another_runner_loads_a_batch_waits_and_nothing_is_placed() -> None:
    script = Script()
    device = await started(script)
    await device.run(0, batch_of("x"), SCRIBE)
    assert not device.ready
    ran = await device.run(1, batch_of("ab"), SCRIBE)
    assert (ran.outcomes, [each.request.id for each in ran.again]) == ([], ["a", "b"])
    assert script.runs == ["x"]


async def test_others_are_told_that_the_model_is_ready_through_a_quick_restart() -> None:
    device = await started(Script())
    await device.run(0, batch_of("x"), SCRIBE)
    assert (device.ready, device.state) == (False, ModelState.READY)


async def test_a_restart_that_takes_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "PATIENCE_S", 0.0)
    script = Script()
    told: list[tuple[str, str]] = []
    devices: list[Device] = []
    device = await started(script, lambda: told.extend((each.state, each.reason) for each in devices))
    devices.append(device)
    script.load_faults = [LoadFailed("no memory")]
    await device.run(0, batch_of("x"), SCRIBE)
    await until_ready(device)
    assert told == [("LOADING", "killed by x"), ("UNAVAILABLE", "no memory"), ("READY", "")]


async def test_a_runner_that_dies_idle_is_replaced_before_anybody_asks() -> None:
    script = Script()
    device = await started(script)
    script.runners[0].die("killed by signal 9")
    await until(lambda: len(script.runners) == 2 and device.ready)
    assert device.deaths == 1


async def test_a_request_known_to_kill_the_runner_makes_nobody_wait_longer_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: counted.append(deaths) or 0.0)
    device = await started(Script())
    batch = batch_of("x")
    for _ in range(LIMIT):
        await until_ready(device)
        batch = Batch.of((await device.run(0, batch, SCRIBE)).again)
    await until_ready(device)
    assert counted == [1] * LIMIT


async def test_a_restart_that_fails_in_any_way_is_tried_again_and_the_reason_is_told() -> None:
    script = Script()
    device = await started(script)
    script.load_faults = [LoadFailed("no memory"), RunnerDied("gone", started=False), OSError("no descriptors")]
    states = Counter[str]()
    await device.run(0, batch_of("x"), SCRIBE)
    while not device.ready:
        states[device.reason] += 1
        await asyncio.sleep(0)
    assert set(states) >= {"no memory", "gone", "no descriptors"}
    assert len(script.runners) == 5
    assert all(runner.stops for runner in script.runners[:-1])


async def test_a_model_that_cannot_be_loaded_leaves_the_device_unavailable_with_the_reason() -> None:
    script = Script()
    script.load_faults = [LoadFailed("not a model")]
    device = Device(script.runner, LIMIT, "m", lambda: None)
    with pytest.raises(LoadFailed):
        await device.start()
    assert (device.state, device.reason) == (ModelState.UNAVAILABLE, "not a model")
    assert script.runners[0].stops == 1


async def test_a_stopped_device_starts_no_runner_any_more() -> None:
    script = Script()
    device = await started(script)
    running = asyncio.create_task(device.run(0, batch_of("x"), SCRIBE))
    await asyncio.sleep(0)
    await device.stop(0.0)
    await running
    await asyncio.sleep(0.01)
    assert (len(script.runners), device.state) == (1, ModelState.UNAVAILABLE)


async def test_a_device_stopped_in_the_middle_of_restarts_ends_them() -> None:
    script = Script()
    device = await started(script)
    await device.run(0, batch_of("x"), SCRIBE)
    script.load_faults = [LoadFailed("never")] * 100
    await until(lambda: len(script.runners) >= 2)
    await device.stop(0.0)
    count = len(script.runners)
    await asyncio.sleep(0.01)
    assert len(script.runners) == count
    assert all(runner.stops for runner in script.runners)
    assert (device.ready, device.reason) == (False, "the worker is stopping")
