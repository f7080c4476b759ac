"""Several runners of one model work beside each other, and look like one device."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from scripted_runner import LIMIT, SCRIBE, Script, batch_of, codes, until_ready
from worker_rig import until, worker_settings

from producer_sdk.announcements import ModelState
from producer_sdk.errors import Code
from workers import keeper
from workers.lessons import Lessons
from workers.replicas import Replicas, device_for
from workers.run import Device
from workers.runners.engine import LoadFailed, ModelSpec
from workers.runners.handle import SLOTS


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


def replicas(scripts: Sequence[Script], changed: Callable[[], None] = lambda: None) -> Replicas:
    lessons = Lessons(quarantine_s=60.0)
    return Replicas([Device(script.runner, LIMIT, "m", changed, lessons=lessons) for script in scripts], lessons)


async def up(*scripts: Script) -> Replicas:
    device = replicas(scripts)
    await device.start()
    await until(lambda: device.idle(()) and all(each.ready for each in device._devices))
    return device


async def test_the_first_batches_go_to_runners_of_their_own_and_the_next_lie_ready_behind_them() -> None:
    device = await up(Script(), Script(), Script())
    taken: list[int] = []
    while (slot := device.free_slot(taken)) is not None:
        taken.append(slot)
    assert (device.slots, taken) == (6, [0, 1, 2, 3, 4, 5])


async def test_they_run_at_a_time_each_on_its_own() -> None:
    scripts = [Script(), Script()]
    device = await up(*scripts)
    runs = [asyncio.create_task(device.run(slot, batch_of(ids), SCRIBE)) for slot, ids in enumerate(["a", "b", "c"])]
    await asyncio.sleep(0)
    assert device.busy_runners == 2
    await asyncio.gather(*runs)
    assert [script.runs for script in scripts] == [["a", "c"], ["b"]]
    assert device.busy_runners == 0


@pytest.mark.parametrize(
    ("taken", "slot", "idle"),
    [
        ((), 0, True),
        ((0,), 1, True),
        ((2,), 1, True),
        ((1,), 0, True),
        ((0, 2), 1, True),
        ((0, 1), 2, False),
        ((0, 1, 2, 3), None, False),
    ],
)
async def test_an_idle_runner_is_given_the_next_batch(taken: tuple[int, ...], slot: int | None, idle: bool) -> None:
    device = await up(Script(), Script())
    assert (device.free_slot(taken), device.idle(taken)) == (slot, idle)


async def test_a_dead_ones_slots_are_not_given_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.02)
    device = await up(Script(), Script())
    ran = await device.run(0, batch_of("x"), SCRIBE)
    assert (device.ready, device.state, device.deaths, len(ran.again)) == (True, ModelState.READY, 1, 1)
    assert [device.free_slot(()), device.free_slot((1,)), device.free_slot((1, 3))] == [1, 3, None]
    assert not device.idle((1,))
    await until(lambda: device.free_slot(()) == 0)


async def test_a_batch_whose_runner_died_before_it_began_runs_on_another_uncharged() -> None:
    device = await up(Script(), Script())
    _, second = await asyncio.gather(device.run(0, batch_of("x"), SCRIBE), device.run(2, batch_of("ab"), SCRIBE))
    assert [each.attempts for each in second.again] == [0, 0]
    assert codes(await device.run(1, batch_of("ab"), SCRIBE)) == {"a": "OK", "b": "OK"}


async def test_it_serves_once_the_first_is_loaded_and_the_others_follow() -> None:
    loads = [Script(), Script()]
    loads[1].load_faults = [LoadFailed("no memory"), OSError("no descriptors")]
    device = replicas(loads)
    await device.start()
    assert (device.state, device.free_slot((0,)), device.idle((0,))) == (ModelState.READY, 2, False)
    await until(lambda: device.free_slot((0,)) == 1)
    assert device.deaths == 0


async def test_a_first_one_that_cannot_be_loaded_is_told_and_no_other_is_tried() -> None:
    scripts = [Script(), Script()]
    scripts[0].load_faults = [LoadFailed("not a model")]
    device = replicas(scripts)
    with pytest.raises(LoadFailed):
        await device.start()
    assert (device.state, device.reason) == (ModelState.UNAVAILABLE, "not a model")
    await asyncio.sleep(0.01)
    assert len(scripts[1].runners) == 1


async def test_it_is_unavailable_only_when_all_are() -> None:
    scripts = [Script(), Script()]
    device = await up(*scripts)
    for script in scripts:
        script.load_faults = [LoadFailed("no memory")] * 10_000
    await device.run(0, batch_of("x"), SCRIBE)
    await until(lambda: device._devices[0].state is ModelState.UNAVAILABLE)
    assert (device.state, device.reason, device.ready) == (ModelState.READY, "", True)
    await device.run(1, batch_of("x"), SCRIBE)
    await until(lambda: device.state is ModelState.UNAVAILABLE)
    assert (device.reason, device.ready, device.free_slot(())) == ("no memory", False, None)
    await device.stop(0.0)


async def test_what_one_has_learned_the_other_knows() -> None:
    scripts = [Script(), Script()]
    device = await up(*scripts)
    await device.run(0, batch_of("++++"), SCRIBE)
    await device.run(1, batch_of("++++"), SCRIBE)
    assert (scripts[1].runs, device.row_cap(())) == (["++", "++"], 2)
    await device.run(0, batch_of("a!"), SCRIBE)
    assert codes(await device.run(1, batch_of("!"), SCRIBE)) == {"!": Code.INFERENCE_FAILED}
    assert "!" not in scripts[1].runs


async def test_stopped_it_has_stopped_each_also_one_that_never_came_up() -> None:
    scripts = [Script(), Script()]
    scripts[1].load_faults = [LoadFailed("never")] * 10_000
    device = replicas(scripts)
    await device.start()
    await until(lambda: len(scripts[1].runners) > 1)
    await device.stop(0.0)
    count = len(scripts[1].runners)
    await asyncio.sleep(0.01)
    assert len(scripts[1].runners) == count
    assert (device.ready, device.state) == (False, ModelState.UNAVAILABLE)


async def test_all_of_them_are_stopped_at_a_time() -> None:
    device = await up(Script(), Script(), Script())
    stopping = [asyncio.Event() for _ in device._devices]
    for each, event in zip(device._devices, stopping, strict=True):

        async def stop(timeout_s: float, event: asyncio.Event = event) -> None:
            event.set()
            await asyncio.gather(*(other.wait() for other in stopping))

        each._keeper.runner.stop = stop  # type: ignore[method-assign]
    async with asyncio.timeout(5.0):
        await device.stop(1.0)


async def test_whoever_waits_is_woken_when_one_is_back() -> None:
    changes: list[str] = []
    device = replicas([Script(), Script()], lambda: changes.append("changed"))
    await device.start()
    await until(lambda: len(changes) == 2)
    await device.run(1, batch_of("x"), SCRIBE)
    await until(lambda: len(changes) == 3)


async def test_a_model_gets_as_many_as_it_asks_for_and_one_is_no_group() -> None:
    settings = worker_settings(Path("."), "p")
    one, three = [
        device_for(ModelSpec("m", "1", Path("."), "python", replicas=count), settings, lambda: None) for count in (1, 3)
    ]
    assert isinstance(one, Device)
    assert isinstance(three, Replicas)
    assert (one.slots, three.slots) == (SLOTS, 3 * SLOTS)


async def test_one_device_offers_the_same() -> None:
    device = Device(Script().runner, LIMIT, "m", lambda: None)
    assert (device.free_slot(()), device.idle(())) == (None, False)
    await device.start()
    assert [device.free_slot(taken) for taken in ((), (0,), (1,), (0, 1))] == [0, 1, 0, None]
    assert [device.idle(taken) for taken in ((), (1,))] == [True, False]
    await device.run(0, batch_of("x"), SCRIBE)
    assert (device.free_slot(()), device.idle(())) == (None, False)
    await until_ready(device)
