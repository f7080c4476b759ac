"""What failed a batch, and is known to, costs no second run."""

import pytest
from msgspec.structs import replace
from scripted_runner import (
    LIMIT,
    RECORD,
    SCRIBE,
    Script,
    batch,
    batch_of,
    codes,
    run_to_the_end,
    started,
    until_ready,
    work,
)

from producer_sdk.errors import Code
from workers import keeper


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "restart_delay_s", lambda deaths: 0.0)


@pytest.mark.parametrize("place", [0, 1, 16, 31])
async def test_a_known_poison_is_answered_without_a_run_and_its_31_mates_share_one(place: int) -> None:
    script = Script()
    device = await started(script, quarantine_s=60.0)
    ids = "a" * place + "!" + "a" * (31 - place)
    await device.run(0, batch_of(ids), SCRIBE)
    assert len(script.runs) - 1 <= 6
    before = len(script.runs)
    ran = await device.run(0, batch_of(ids), SCRIBE)
    assert script.runs[before:] == ["a" * 31]
    assert sorted(each.code for each in ran.outcomes) == [Code.INFERENCE_FAILED, *["OK"] * 31]


async def test_a_batch_of_known_ones_is_no_run_at_all_and_the_error_says_why() -> None:
    script = Script()
    device = await started(script, quarantine_s=60.0)
    await device.run(0, batch_of("a!"), SCRIBE)
    before = len(script.runs)
    ran = await device.run(0, batch_of("!"), SCRIBE)
    assert (len(script.runs), codes(ran), ran.run_s) == (before, {"!": Code.INFERENCE_FAILED}, 0.0)
    sentence = b"cannot digest ! (the same inputs failed 0 s ago and are not run again for 60 s)"
    assert sentence in (ran.outcomes[0].outgoing.value or b"")


async def test_a_dead_letter_that_is_published_again_is_run_again() -> None:
    script = Script()
    device = await started(script, quarantine_s=60.0)
    await device.run(0, batch_of("a!"), SCRIBE)
    redriven = work("!")
    redriven.record = replace(RECORD, headers=[("headrace-redriven", b"p.m.dead:0:0")])
    before = len(script.runs)
    await device.run(0, batch([redriven]), SCRIBE)
    assert script.runs[before:] == ["!"]


async def test_a_record_given_up_for_killing_runners_kills_no_further_one() -> None:
    device = await started(Script(), quarantine_s=60.0)
    await run_to_the_end(device, [work(id) for id in "abx"])
    assert device.deaths == LIMIT
    await until_ready(device)
    assert codes(await device.run(0, batch_of("cx"), SCRIBE)) == {"c": "OK", "x": Code.RUNNER_CRASHED}
    assert device.deaths == LIMIT


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ("!", "it had no batch mates that passed"),
        ("!!", "the model may fail on everything"),
        ("a-", "it failed by itself and cost no run"),
        ("a~", "it passes by itself, and cost no run"),
        ("a?", "it passes by itself"),
        ("A+++", "memory may be there the next time"),
        ("AZ", "room may be there the next time"),
    ],
)
async def test_nobody_is_remembered_without_evidence(ids: str, why: str) -> None:
    device = await started(Script(), quarantine_s=60.0)
    await run_to_the_end(device, [work(id) for id in ids])
    assert not device.quarantine, why


async def test_it_is_off_where_nobody_asks_for_it() -> None:
    script = Script()
    device = await started(script)
    for _ in range(2):
        await device.run(0, batch_of("a!"), SCRIBE)
    assert script.runs == ["a!", "a", "!"] * 2


async def test_one_that_does_not_fit_among_known_ones_still_gets_its_place() -> None:
    device = await started(Script(), quarantine_s=60.0)
    await device.run(0, batch_of("a!"), SCRIBE)
    ran = await device.run(0, batch([work(id) for id in "A!B"]), SCRIBE)
    assert codes(ran) == {"A": "OK", "B": "OK", "!": Code.INFERENCE_FAILED}
