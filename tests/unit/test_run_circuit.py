"""A model whose runners die one after another is said to be unavailable, and is back as soon as a batch succeeds."""

import asyncio

import pytest
from scripted_runner import SCRIBE, Script, batch_of, codes, run_to_the_end, started, until_ready, work

from producer_sdk.announcements import ModelState
from workers import keeper
from workers.circuit import Circuit
from workers.run import Device
from workers.runners.engine import LoadFailed

OPENS_AT = 3


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


async def opened(script: Script) -> Device:
    device = await started(script, circuit_limit=OPENS_AT)
    for _ in range(OPENS_AT):
        await until_ready(device)
        await device.run(0, batch_of("x"), SCRIBE)
    return device


def test_only_deaths_in_a_row_open_it() -> None:
    circuit = Circuit(2)
    circuit.died("by x", known=False)
    circuit.worked()
    circuit.died("by y", known=False)
    assert not circuit.open
    circuit.died("by z", known=False)
    assert (circuit.open, circuit.reason) == (True, "its runner died 2 times in a row, at last: by z")


def test_deaths_by_records_under_suspicion_do_not_open_it() -> None:
    circuit = Circuit(1)
    for _ in range(9):
        circuit.died("by x", known=True)
    assert not circuit.open


def test_one_death_after_a_rest_opens_it_again() -> None:
    circuit = Circuit(3)
    for _ in range(5):
        circuit.died("by x", known=False)
    circuit.rested()
    assert not circuit.open
    circuit.died("by x", known=False)
    assert circuit.open


async def test_after_so_many_deaths_it_says_so_with_the_last_one_and_when_it_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.2 * (deaths == OPENS_AT))
    device = await opened(Script())
    await asyncio.sleep(0.01)
    assert (device.ready, device.state) == (False, ModelState.UNAVAILABLE)
    assert device.reason == "its runner died 3 times in a row, at last: killed by x; it is started again in 0.2 s"


async def test_before_that_nobody_is_told_of_a_quick_restart() -> None:
    device = await started(Script(), circuit_limit=OPENS_AT)
    for _ in range(OPENS_AT - 1):
        await device.run(0, batch_of("x"), SCRIBE)
        await until_ready(device)
    assert device.state is ModelState.READY


async def test_then_one_batch_is_tried_and_not_two() -> None:
    device = await opened(Script())
    await until_ready(device)
    assert device.state is ModelState.UNAVAILABLE
    assert device.reason.endswith("it is up again and tries one batch")
    tried = asyncio.create_task(device.run(0, batch_of("ab"), SCRIBE))
    await asyncio.sleep(0)
    assert not device.ready
    assert (await device.run(1, batch_of("c"), SCRIBE)).again
    assert codes(await tried) == {"a": "OK", "b": "OK"}


async def test_a_success_closes_it_and_wakes_who_waits() -> None:
    changes: list[str] = []
    device = await opened(Script())
    await until_ready(device)
    device._keeper._changed = lambda: changes.append(device.state)
    await device.run(0, batch_of("ab"), SCRIBE)
    assert (device.ready, device.state, device.reason, changes) == (True, ModelState.READY, "", ["READY"])


async def test_a_death_leaves_it_open() -> None:
    device = await opened(Script())
    await until_ready(device)
    await device.run(0, batch_of("ax"), SCRIBE)
    await asyncio.sleep(0.01)
    assert (device.state, "died 4 times" in device.reason) == (ModelState.UNAVAILABLE, True)


async def test_a_deadly_record_among_good_ones_never_opens_it() -> None:
    device = Device(Script().runner, 9, "m", lambda: None, circuit_limit=2)
    await device.start()
    await run_to_the_end(device, [work(id) for id in "abxcd"])
    assert device.deaths == 9
    await until_ready(device)
    assert device.state is ModelState.READY


async def test_nobody_asks_an_unavailable_model_so_a_runner_that_lives_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "REST_S", 0.05)
    device = await opened(Script())
    await until_ready(device)
    await asyncio.sleep(0.2)
    assert (device.ready, device.state) == (True, ModelState.READY)
    await device.run(0, batch_of("x"), SCRIBE)
    await asyncio.sleep(0)
    assert device.state is ModelState.UNAVAILABLE


async def test_loads_that_fail_tell_their_own_reason() -> None:
    script, told = Script(), set[str]()
    device = await opened(script)
    script.load_faults = [LoadFailed("no memory")]
    while not device.ready:
        told.add(device.reason)
        await asyncio.sleep(0)
    assert "no memory" in told
    assert "no memory" not in device.reason


async def test_a_device_that_stops_while_it_is_open_forgets_its_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "REST_S", 0.05)
    device = await opened(Script())
    await until_ready(device)
    await device.stop(0.0)
    await asyncio.sleep(0.1)
    assert (device.state, device.reason) == (ModelState.UNAVAILABLE, "the worker is stopping")
