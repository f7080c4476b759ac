"""A device that is lost to its process, with an error that nobody knows, costs only the record that did it."""

import asyncio

import pytest
from scripted_runner import SCRIBE, Script, batch, batch_of, codes, run_to_the_end, started, until_ready, work

from producer_sdk.announcements import ModelState
from producer_sdk.errors import Code
from workers import keeper


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


@pytest.mark.parametrize("place", [0, 1, 3, 6, 7])
async def test_the_others_are_answered_by_another_runner_and_nobody_is_charged(place: int) -> None:
    ids = "abcdefg"[:place] + "#" + "abcdefg"[place:]
    works = [work(id) for id in ids]
    script = Script()
    device = await started(script)
    ended, _ = await run_to_the_end(device, works)
    assert dict(ended) == dict.fromkeys("abcdefg", "OK") | {"#": Code.INFERENCE_FAILED}
    assert [each.attempts for each in works] == [0] * 8
    assert device.deaths <= 2


async def test_a_single_good_record_that_fails_right_after_shows_it() -> None:
    device = await started(Script())
    assert codes(await device.run(0, batch_of("#"), SCRIBE)) == {"#": Code.INFERENCE_FAILED}
    assert device.ready
    ran = await device.run(0, batch_of("a"), SCRIBE)
    assert ([each.request.id for each in ran.again], ran.outcomes, device.deaths) == (["a"], [], 1)
    await until_ready(device)
    assert codes(await device.run(0, batch_of("a"), SCRIBE)) == {"a": "OK"}


async def test_an_error_of_the_device_that_does_not_last_costs_no_runner() -> None:
    device = await started(Script())
    for ids in ("ab%c", "abc", "%", "a"):
        expected = dict.fromkeys(ids, "OK") | dict.fromkeys(set(ids) & {"%"}, Code.INFERENCE_FAILED.value)
        assert codes(await device.run(0, batch_of(ids), SCRIBE)) == expected
    assert device.deaths == 0


async def test_a_model_whose_every_run_fails_for_the_device_is_said_to_be_unavailable() -> None:
    device = await started(Script(), circuit_limit=3)
    for _ in range(6):
        await run_to_the_end(device, [work("%")])
    await until_ready(device)
    assert device.state is ModelState.UNAVAILABLE
    assert "two runs of different records failed for the device: RuntimeError: CUDA error" in device.reason


@pytest.mark.parametrize("ids", ["##", "a##b#c", "######", "%%%a%#b"])
async def test_many_records_that_lose_the_device_are_each_answered_in_the_end(ids: str) -> None:
    ended, _ = await run_to_the_end(await started(Script()), [work(id) for id in ids])
    assert ended == sorted((id, "OK" if id.isalpha() else Code.INFERENCE_FAILED.value) for id in ids)


async def test_two_batches_at_a_time_that_both_fail_for_the_device_get_on() -> None:
    device = await started(Script())
    left = [[work(id) for id in ids] for ids in ("ab%", "cd%")]
    ended: list[str] = []
    for _ in range(20):
        await until_ready(device)
        due = [sorted(works, key=lambda each: not each.alone) for works in left]
        due = [works[:1] if works and works[0].alone else works for works in due]
        both = [device.run(slot, batch(works), SCRIBE) for slot, works in enumerate(due) if works]
        for works, ran in zip([works for works in left if works], await asyncio.gather(*both), strict=True):
            gone = {id(each.source) for each in ran.outcomes}
            works[:] = [each for each in works if id(each.source) not in gone]
            ended += [each.id for each in ran.outcomes]
    assert sorted(ended) == sorted("ab%cd%")
