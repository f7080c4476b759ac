"""Attempts are charged to who is at fault: a record that kills runners, or one whose failure passes by itself."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_runner import LIMIT, SCRIBE, Script, batch, batch_of, codes, run_to_the_end, started, until_ready, work

from producer_sdk.errors import Code
from workers import keeper
from workers.run import Device
from workers.runners.engine import RetryPolicy

NEIGHBOURS = [chr(ord("\u4e00") + n) for n in range(40)]


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.integers(1, 40), st.data())
async def test_a_deadly_record_alone_is_given_up_and_all_its_neighbours_are_answered(
    records: int, data: st.DataObject
) -> None:
    place, limit = data.draw(st.integers(0, records - 1)), data.draw(st.integers(1, 3))
    works = [work("x" if n == place else NEIGHBOURS[n]) for n in range(records)]
    script = Script()
    device = Device(script.runner, limit, "m", lambda: None)
    await device.start()
    ended, batches = await run_to_the_end(device, works)
    expected = dict.fromkeys((each.request.id for each in works), "OK") | {"x": Code.RUNNER_CRASHED}
    assert dict(ended) == expected
    assert device.deaths == max(limit, 1 + (records > 1)) <= limit + 1
    assert all(each.attempts <= 1 for each in works if each.request.id != "x")
    runs_of_neighbours = sum(len(each.works) for each in batches if works[place] not in each.works)
    assert runs_of_neighbours == records - 1


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_an_innocent_batch_is_never_given_up_for_one_death(limit: int) -> None:
    script = Script()
    device = Device(script.runner, limit, "m", lambda: None)
    await device.start()
    ran = await device.run(0, batch_of("abxc"), SCRIBE)
    assert (ran.outcomes, [each.request.id for each in ran.again]) == ([], list("abxc"))
    assert all(each.alone for each in ran.again)


async def test_a_record_in_a_batch_of_its_own_is_given_up_at_its_last_attempt() -> None:
    device = Device(Script().runner, 1, "m", lambda: None)
    await device.start()
    assert codes(await device.run(0, batch_of("x"), SCRIBE)) == {"x": Code.RUNNER_CRASHED}


async def test_a_failure_that_passes_by_itself_comes_back_charged_with_its_pause_and_its_error() -> None:
    ran = await (await started(Script())).run(0, batch_of("a~b"), SCRIBE)
    assert codes(ran) == {"a": "OK", "b": "OK"}
    assert [(each.work.request.id, each.work.attempts, each.work.alone) for each in ran.later] == [("~", 1, False)]
    assert (ran.later[0].delay_s, ran.later[0].error.code) == (0.5, Code.MODEL_NOT_READY)


async def test_a_batch_that_fails_in_passing_is_not_split_but_comes_back_as_a_whole() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("ab?d"), SCRIBE)
    assert (script.runs, ran.outcomes) == (["ab?d"], [])
    assert [(each.work.request.id, each.work.attempts) for each in ran.later] == [(id, 1) for id in "ab?d"]


async def test_at_the_last_attempt_it_is_split_so_that_one_record_takes_no_other_with_it() -> None:
    script = Script()
    device = await started(script)
    works = [work(id) for id in "ab?d"]
    ended, batches = await run_to_the_end(device, works)
    assert dict(ended) == {"a": "OK", "b": "OK", "?": Code.MODEL_NOT_READY, "d": "OK"}
    assert [len(each.works) for each in batches] == [4] * LIMIT
    assert works[2].attempts == LIMIT


async def test_nothing_is_tried_again_after_its_deadline() -> None:
    works = [work("a"), work("~", expires=time.monotonic() + 0.4)]
    ran = await (await started(Script())).run(0, batch(works), SCRIBE)
    assert (codes(ran), ran.later) == ({"a": "OK", "~": Code.MODEL_NOT_READY}, ())


async def test_the_policy_of_the_model_is_kept() -> None:
    policy = RetryPolicy(codes=(Code.INFERENCE_FAILED.value,), first_delay_s=2.0, limit=2)
    device = await started(Script(), policy=policy, random=lambda: 0.0)
    ran = await device.run(0, batch_of("!"), SCRIBE)
    assert [(each.delay_s, each.error.code) for each in ran.later] == [(1.0, Code.INFERENCE_FAILED)]
    assert codes(await device.run(0, batch([ran.later[0].work]), SCRIBE)) == {"!": Code.INFERENCE_FAILED}


async def test_what_failed_before_a_death_is_judged_and_not_charged_with_it() -> None:
    device = await started(Script())
    ran = await device.run(0, batch_of("ab!dexgh"), SCRIBE)
    assert codes(ran) == {"a": "OK", "b": "OK", "!": Code.INFERENCE_FAILED}
    await until_ready(device)
    ran = await device.run(0, batch_of("!x"), SCRIBE)
    assert (codes(ran), [each.request.id for each in ran.again]) == ({"!": Code.INFERENCE_FAILED}, ["x"])
