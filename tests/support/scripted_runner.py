"""A runner that does what its records say, for tests of the device."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.errors import HeadraceError, InferenceFailed, ModelNotReady, OutOfMemory, PayloadTooLarge
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request
from workers.commit import PartitionLedger
from workers.lessons import Lessons
from workers.reply import Scribe
from workers.run import Device, Ran
from workers.runners.engine import Loaded, Signature
from workers.runners.runner import KILLED, RunnerDied
from workers.work import Answer, Batch, Outcome, Part, Source, Work

LEDGER = PartitionLedger(TopicPartition("p.m.async", 0))
SCRIBE = Scribe(Topics("p"), "m", "1", 100_000)
LIMIT = 3
RECORD = ReadRecord("p.m.async", 0, 0, 0, None, b"", ())


def work(id: str, expires: float | None = None) -> Work:
    """One record; its inputs are its id, so that records of one id are equal."""
    request = Request(id, {"x": Tensor(Datatype.UINT8, (1,), id.encode())})
    return Work(request, Source(LEDGER, 0), RECORD, Lane.ASYNC, 1, 8, (), 0.0, expires)


def batch_of(ids: str) -> Batch:
    """One record a character.

    `!` fails what it runs with, else `x` kills the runner. `?` fails what it runs with in a way that passes by itself,
    `~` only itself, and so does `-` for good. `#` fails what it runs with and loses the device, so that all fails from
    then on; `%` fails what it runs with by an error of the device that does not last. More than two `+` are too many
    for the model at once, `&` is too much even alone, and for more than two `$` the kernel kills it. Two
    capital letters do not fit into a slot together, and `Z` not even alone.
    """
    return batch(tuple(map(work, ids)))


def batch(works: Sequence[Work]) -> Batch:
    return Batch.of(works)


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
        self._device_lost = False
        self._ended = asyncio.Event()

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
            if "x" in ids and "!" not in ids:
                self.die("killed by x")
            if ids.count("$") > 2:
                self.die(KILLED)
            if self._death:
                raise RunnerDied(self._death, started=True)
            error = self._error(ids)
            of_rows = {"~": retry_in(0.5), "-": InferenceFailed("cannot digest -")}
            parts = [Part(1, 1, (), of_rows.get(id)) for id in ids]
            return Answer(() if error else tuple(parts), 0.001, error)

    def _error(self, ids: str) -> HeadraceError | None:
        """The error of a run as a whole."""
        self._device_lost = self._device_lost or "#" in ids
        if self._device_lost or "%" in ids:
            return InferenceFailed("RuntimeError: CUDA error: one of a kind")
        if ids.count("+") > 2 or "&" in ids:
            return OutOfMemory("too much")
        if "!" in ids:
            return InferenceFailed("cannot digest !")
        return retry_in(0.5) if "?" in ids else None

    def die(self, reason: str) -> None:
        self._death = reason
        self._ended.set()

    async def died(self) -> str:
        await self._ended.wait()
        return self._death

    async def stop(self, timeout_s: float = 5.0) -> None:
        self.stops += 1


def retry_in(delay_s: float) -> HeadraceError:
    error = ModelNotReady("come back later")
    error.retry_after_s = delay_s
    return error


async def started(
    script: Script, changed: Callable[[], None] = lambda: None, *, quarantine_s: float = 0.0, **options: Any
) -> Device:
    device = Device(script.runner, LIMIT, "m", changed, lessons=Lessons(quarantine_s=quarantine_s), **options)
    await device.start()
    return device


async def run_to_the_end(device: Device, works: Sequence[Work]) -> tuple[list[tuple[str, str]], list[Batch]]:
    """As the loop does: who has to run again runs, alone if that is said, at once even if a pause is asked for.

    Gives id and code of each record's outcome, in the order of ids, and the batches.
    """
    ended: list[Outcome] = []
    batches, waiting = list[Batch](), list(works)
    while waiting:
        alone = [each for each in waiting if each.alone][:1]
        batches.append(batch(alone or waiting))
        waiting = [each for each in waiting if each not in batches[-1].works]
        await until_ready(device)
        ran = await device.run(0, batches[-1], SCRIBE)
        ended += ran.outcomes
        waiting = [*ran.again, *(each.work for each in ran.later), *waiting]
    assert {id(each.source) for each in works} == {id(each.source) for each in ended}
    assert len(ended) == len(works)
    return sorted((each.id, each.code) for each in ended), batches


def codes(ran: Ran) -> dict[str, str]:
    assert len({outcome.id for outcome in ran.outcomes}) == len(ran.outcomes)
    return {outcome.id: outcome.code for outcome in ran.outcomes}


async def until_ready(device: Device) -> None:
    ends = time.monotonic() + 10.0
    while not device.ready:
        assert time.monotonic() < ends, device.reason
        await asyncio.sleep(0.001)
