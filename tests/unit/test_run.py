"""A device answers for each record of a batch, whatever its runner does."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from worker_rig import until

from producer_sdk.announcements import ModelState
from producer_sdk.broker import TopicPartition
from producer_sdk.errors import Code, InferenceFailed, OutOfMemory, PayloadTooLarge
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request
from workers import run
from workers.commit import PartitionLedger
from workers.reply import Scribe
from workers.run import Device, Ran
from workers.runners.engine import Loaded, LoadFailed, Signature
from workers.runners.runner import RunnerDied
from workers.work import Answer, Batch, Part, Source, Work

LEDGER = PartitionLedger(TopicPartition("p.m.async", 0))
SCRIBE = Scribe(Topics("p"), "m", "1", 100_000)
LIMIT = 3


def work(id: str) -> Work:
    return Work(Request(id, {}), Source(LEDGER, 0), Lane.ASYNC, 1, 8, (), 0.0, None)


def batch_of(ids: str) -> Batch:
    """One record a character: `!` fails what it runs with, else `x` kills the runner.

    More than two `+` are too many for the model at once. Two capital letters do not fit into a slot together, and `Z`
    not even alone.
    """
    return Batch(tuple(map(work, ids)), len(ids))


class Script:
    """What the runners of one device have been through."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.runners: list[ScriptedRunner] = []
        self.load_faults: list[Exception] = []

    def runner(self) -> "ScriptedRunner":
        self.runners.append(ScriptedRunner(self))
        return self.runners[-1]


class ScriptedRunner:
    """A runner whose records say what happens. Runs are answered in order, one at a time; a dead one stays dead."""

    def __init__(self, script: Script) -> None:
        self.slots = 2
        self.stops = 0
        self._script = script
        self._placed: dict[int, str] = {}
        self._turn = asyncio.Lock()
        self._death = ""

    async def start(self) -> Loaded:
        await asyncio.sleep(0)
        if self._script.load_faults:
            raise self._script.load_faults.pop(0)
        return Loaded(Signature((), ()), "python", 32)

    def place(self, slot: int, batch: Batch) -> None:
        ids = "".join(each.request.id for each in batch.works)
        if sum(map(str.isupper, ids)) > 1 or ids == "Z":
            raise PayloadTooLarge("it needs more memory than there is")
        self._placed[slot] = ids

    async def run(self, slot: int, first: int, last: int) -> Answer:
        async with self._turn:
            await asyncio.sleep(0.001)
            if self._death:
                raise RunnerDied(self._death, started=False)
            ids = self._placed[slot][first:last]
            self._script.runs.append(ids)
            if ids.count("+") > 2:
                return Answer((), 0.001, OutOfMemory("too many +"))
            if "!" in ids:
                return Answer((), 0.001, InferenceFailed("cannot digest !"))
            if "x" in ids:
                self._death = "killed by x"
                raise RunnerDied(self._death, started=True)
            return Answer((Part(len(ids), len(ids)),), 0.001)

    async def stop(self, timeout_s: float = 5.0) -> None:
        self.stops += 1


async def started(script: Script, changed: Callable[[], None] = lambda: None) -> Device:
    device = Device(script.runner, LIMIT, "m", changed)
    await device.start()
    return device


def codes(ran: Ran) -> dict[str, str]:
    assert len({outcome.id for outcome in ran.outcomes}) == len(ran.outcomes)
    return {outcome.id: outcome.code for outcome in ran.outcomes}


async def until_ready(device: Device) -> None:
    await until(lambda: device.ready)


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "restart_delay_s", lambda deaths: 0.0)


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
    assert {each.request.id: each.deaths for each in ran.again} == dict.fromkeys("abxc", 1)
    assert ran.outcomes == []


async def test_records_answered_or_set_aside_before_a_death_are_not_charged() -> None:
    script = Script()
    ran = await (await started(script)).run(0, batch_of("x!cdef"), SCRIBE)
    assert script.runs == ["x!cdef", "x!c", "x"]
    assert {each.request.id: each.deaths for each in ran.again} == {"x": 1} | dict.fromkeys("!cdef", 0)
    script = Script()
    ran = await (await started(script)).run(0, batch_of("ab!dexgh"), SCRIBE)
    assert script.runs == ["ab!dexgh", "ab!d", "ab", "!", "dexgh"]
    assert codes(ran) == {"a": "OK", "b": "OK", "!": Code.INFERENCE_FAILED}
    assert {each.request.id: each.deaths for each in ran.again} == dict.fromkeys("dexgh", 1)


async def test_a_batch_behind_the_one_that_killed_the_runner_runs_again_uncharged() -> None:
    script = Script()
    device = await started(script)
    first, second = await asyncio.gather(device.run(0, batch_of("x"), SCRIBE), device.run(1, batch_of("ab"), SCRIBE))
    assert [each.deaths for each in first.again] == [1]
    assert [each.deaths for each in second.again] == [0, 0]
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
        batch = Batch(ran.again, len(ran.again))
    assert codes(ran) == {"x": Code.RUNNER_CRASHED}
    sentence = b"the runner died 3 times with this request in flight: killed by x"
    assert sentence in (ran.outcomes[0].outgoing.value or b"")
    assert (device.deaths, ran.again) == (LIMIT, ())


async def test_while_another_runner_loads_a_batch_waits_and_nothing_is_placed() -> None:
    script = Script()
    device = await started(script)
    await device.run(0, batch_of("x"), SCRIBE)
    assert device.state is ModelState.LOADING
    ran = await device.run(1, batch_of("ab"), SCRIBE)
    assert (ran.outcomes, [each.request.id for each in ran.again]) == ([], ["a", "b"])
    assert script.runs == ["x"]


async def test_a_restart_that_fails_in_any_way_is_tried_again_and_the_reason_is_told() -> None:
    script = Script()
    device = await started(script)
    script.load_faults = [LoadFailed("no memory"), RunnerDied("gone", started=False), OSError("no descriptors")]
    states = Counter[str]()
    await device.run(0, batch_of("x"), SCRIBE)
    while not device.ready:
        states[device.reason] += 1
        await asyncio.sleep(0)
    assert set(states) >= {"killed by x", "no memory", "gone", "no descriptors"}
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
    assert {each.request.id: each.deaths for each in ran.again} == {"A": 1, "x": 1, "B": 0, "c": 0}


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
