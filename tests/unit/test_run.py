"""A device answers for each record of a batch, whatever its runner does."""

import asyncio

import pytest
from scripted_runner import LIMIT, SCRIBE, Script, batch_of, codes, started, until_ready

from producer_sdk.errors import Code
from workers import keeper
from workers.run import Ran
from workers.work import Batch


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


async def test_a_good_batch_is_one_run_and_each_record_is_answered() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("abc"), SCRIBE)
    assert (script.runs, codes(ran), ran.again) == (["abc"], dict.fromkeys("abc", "OK"), ())
    assert ran.run_s == 0.001


async def test_records_that_fail_a_batch_are_found_and_the_others_are_answered() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("ab!cdefgh!"), SCRIBE)
    assert sorted(outcome.code for outcome in ran.outcomes) == [Code.INFERENCE_FAILED] * 2 + ["OK"] * 8
    assert len(script.runs) <= 1 + 2 * (4 + 1)
    assert ran.run_s == pytest.approx(0.001 * len(script.runs))


@pytest.mark.parametrize("ids", ["+++", "a+b+c+", "++++++++", "+" * 31])
async def test_a_batch_that_fails_only_as_a_whole_costs_no_record_its_answer(ids: str) -> None:
    ran = await (await started(Script())).run(0, batch_of(ids), SCRIBE)
    assert [outcome.code for outcome in ran.outcomes] == ["OK"] * len(ids)


@pytest.mark.parametrize("place", range(32))
async def test_one_poison_in_32_costs_at_most_six_runs_more_and_only_its_own_answer(place: int) -> None:
    script = Script()
    ids = "a" * place + "!" + "a" * (31 - place)
    ran = await (await started(script)).run(0, batch_of(ids), SCRIBE)
    failed = [outcome for outcome in ran.outcomes if outcome.code != "OK"]
    assert [(each.id, each.code) for each in failed] == [("!", Code.INFERENCE_FAILED)]
    assert (len(ran.outcomes), len(script.runs) - 1 <= 6) == (32, True)


async def test_each_record_that_was_running_at_a_death_is_charged_and_runs_again() -> None:
    ran = await (await started(Script())).run(0, batch_of("abxc"), SCRIBE)
    assert {each.request.id: each.attempts for each in ran.again} == dict.fromkeys("abxc", 1)
    assert ran.outcomes == []


async def test_records_answered_or_set_aside_before_a_death_are_not_charged() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("x!cdef"), SCRIBE)
    assert script.runs == ["x!cdef", "x!c", "x"]
    assert {each.request.id: each.attempts for each in ran.again} == {"x": 1} | dict.fromkeys("!cdef", 0)
    script = Script()
    ran = await (await started(script)).run(0, batch_of("ab!dexgh"), SCRIBE)
    assert script.runs == ["ab!dexgh", "ab!d", "ab", "!", "dexgh"]
    assert codes(ran) == {"a": "OK", "b": "OK", "!": Code.INFERENCE_FAILED}
    assert {each.request.id: each.attempts for each in ran.again} == dict.fromkeys("dexgh", 1)


async def test_a_batch_behind_the_one_that_killed_the_runner_runs_again_uncharged() -> None:
    script = Script()
    device = await started(script)
    first, second = await asyncio.gather(device.run(0, batch_of("x"), SCRIBE), device.run(1, batch_of("ab"), SCRIBE))
    assert [each.attempts for each in first.again] == [1]
    assert [each.attempts for each in second.again] == [0, 0]
    assert (first.outcomes, second.outcomes) == ([], [])


async def test_two_slots_that_see_one_death_start_one_runner() -> None:
    script, changes = Script(), list[str]()
    device = await started(script, lambda: changes.append("ready"))
    await asyncio.gather(device.run(0, batch_of("x"), SCRIBE), device.run(1, batch_of("ab"), SCRIBE))
    await until_ready(device)
    assert (device.deaths, len(script.runners), changes) == (1, 2, ["ready", "ready"])
    assert codes(await device.run(1, batch_of("ab"), SCRIBE)) == {"a": "OK", "b": "OK"}


async def test_a_record_is_given_up_at_the_limit_with_the_number_of_deaths() -> None:
    script = Script()
    device = await started(script)
    batch, ran = batch_of("x"), Ran([])
    for _ in range(LIMIT):
        await until_ready(device)
        ran = await device.run(0, batch, SCRIBE)
        batch = Batch.of(ran.again)
    assert codes(ran) == {"x": Code.RUNNER_CRASHED}
    sentence = b"given up after 3 attempts, for the runner died with this request in flight: killed by x"
    assert sentence in (ran.outcomes[0].outgoing.value or b"")
    assert (device.deaths, ran.again) == (LIMIT, ())


async def test_inputs_that_do_not_fit_together_run_in_smaller_batches() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("abAcBdCe"), SCRIBE)
    assert codes(ran) == dict.fromkeys("abAcBdCe", "OK")
    assert script.runs == ["abAc", "Bd", "Ce"]


async def test_only_a_record_that_does_not_even_fit_alone_is_refused() -> None:
    ran = await (await started(Script())).run(0, batch_of("AZ"), SCRIBE)
    assert codes(ran) == {"A": "OK", "Z": Code.PAYLOAD_TOO_LARGE}


async def test_what_is_behind_a_death_in_a_smaller_batch_runs_again_uncharged() -> None:
    ran = await (await started(Script())).run(0, batch_of("AxBc"), SCRIBE)
    assert {each.request.id: each.attempts for each in ran.again} == {"A": 1, "x": 1, "B": 0, "c": 0}
