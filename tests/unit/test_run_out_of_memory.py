"""Memory that runs out makes batches smaller, and costs no request its answer that fits by itself."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_runner import SCRIBE, Script, batch, batch_of, codes, run_to_the_end, started, until_ready, work

from producer_sdk.errors import Code
from workers import keeper
from workers.lessons import Lessons
from workers.row_caps import UNKNOWN
from workers.run import Device
from workers.runners.engine import RetryPolicy


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


def failed(script: Script) -> int:
    """Runs for which memory ran out."""
    return sum(run.count("+") > 2 or "&" in run for run in script.runs)


async def test_a_batch_that_is_too_large_runs_in_halves_at_once() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("+a+b+c++"), SCRIBE)
    assert [outcome.code for outcome in ran.outcomes] == ["OK"] * 8
    assert script.runs == ["+a+b+c++", "+a+b", "+c++", "+c", "++"]


async def test_the_size_that_failed_is_learned_and_the_next_batch_is_never_tried_whole() -> None:
    script = Script()
    device = await started(script)
    await device.run(0, batch_of("+" * 8), SCRIBE)
    assert (device.row_cap(()), device.lessons.ooms) == (2, 2)
    script.runs.clear()
    await device.run(0, batch_of("+" * 8), SCRIBE)
    assert script.runs == ["++"] * 4


async def test_a_size_learned_in_the_first_half_is_kept_to_in_the_second() -> None:
    script = Script()
    await (await started(script)).run(0, batch_of("+" * 32), SCRIBE)
    assert script.runs[:5] == ["+" * size for size in (32, 16, 8, 4, 2)]
    assert (failed(script), len(script.runs)) == (4, 4 + 16)


@given(st.text("+ab", min_size=1, max_size=40))
async def test_no_request_fails_while_each_fits_alone_and_few_runs_do(ids: str) -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of(ids), SCRIBE)
    assert [outcome.code for outcome in ran.outcomes] == ["OK"] * len(ids)
    assert sorted(outcome.id for outcome in ran.outcomes) == sorted(ids)
    assert failed(script) <= 2 * math.log2(2 * len(ids))


async def test_a_request_that_is_too_much_alone_is_answered_so_and_makes_no_batch_smaller() -> None:
    device = await started(Script())
    ran = await device.run(0, batch_of("abc&efgh"), SCRIBE)
    assert codes(ran) == dict.fromkeys("abcefgh", "OK") | {"&": Code.OUT_OF_MEMORY}
    assert device.row_cap(()) == UNKNOWN


async def test_alone_it_is_tried_again_where_the_model_says_so_and_its_mates_do_not_wait() -> None:
    device = await started(Script(), policy=RetryPolicy(codes=(Code.OUT_OF_MEMORY.value,)))
    ran = await device.run(0, batch_of("ab&d"), SCRIBE)
    assert codes(ran) == dict.fromkeys("abd", "OK")
    assert [each.work.request.id for each in ran.later] == ["&"]


async def test_a_record_at_fault_among_too_many_is_still_found() -> None:
    ended, _ = await run_to_the_end(await started(Script()), [work(id) for id in "++a!+b+-&"])
    failures = {"!": Code.INFERENCE_FAILED, "-": Code.INFERENCE_FAILED, "&": Code.OUT_OF_MEMORY}
    assert ended == sorted((id, failures.get(id, "OK")) for id in "++a!+b+-&")


async def test_a_runner_killed_for_memory_makes_the_next_batches_smaller() -> None:
    device = await started(Script())
    ran = await device.run(0, batch_of("a$$$"), SCRIBE)
    assert (len(ran.again), device.row_cap(()), device.lessons.ooms) == (4, 2, 1)
    await until_ready(device)
    ended, _ = await run_to_the_end(device, list(ran.again))
    assert [code for _, code in ended] == ["OK"] * 4


def test_one_kill_of_a_small_batch_teaches_nothing_where_large_ones_have_fitted_and_a_second_does() -> None:
    lessons = Lessons()
    lessons.passed(batch_of("abcdefgh"), 0.01, 0.0)
    lessons.killed([work("a"), work("b")], 1.0)
    assert lessons.caps.rows(()) == UNKNOWN
    lessons.killed([work("a"), work("b")], 2.0)
    assert lessons.caps.rows(()) == 1


async def test_a_runner_that_ended_in_another_way_makes_none_smaller() -> None:
    device = await started(Script())
    await device.run(0, batch_of("axbc"), SCRIBE)
    assert (device.row_cap(()), device.lessons.ooms) == (UNKNOWN, 0)


async def test_inputs_that_find_no_room_in_a_slot_teach_the_same() -> None:
    device = await started(Script())
    await device.run(0, batch_of("ABCD"), SCRIBE)
    assert device.row_cap(()) == 1


async def test_each_run_that_passed_is_observed_with_its_rows_and_their_cost() -> None:
    seen: list[tuple[object, int, float, float]] = []
    device = Device(Script().runner, 3, "m", lambda: None, lessons=Lessons(observed=lambda *run: seen.append(run)))
    await device.start()
    works = [work(id) for id in "+++"]
    for number, each in enumerate(works):
        each.cost = 10.0**number
    await device.run(0, batch(works), SCRIBE)
    assert seen == [((), 1, 1.0, 0.001), ((), 2, 110.0, 0.001)]
