"""A runner that does what its records say, for tests of the device."""

import asyncio
from collections.abc import Callable

from worker_rig import until

from producer_sdk.broker import TopicPartition
from producer_sdk.errors import InferenceFailed, OutOfMemory, PayloadTooLarge
from producer_sdk.topics import Lane, Topics
from producer_sdk.wire import Request
from workers.commit import PartitionLedger
from workers.reply import Scribe
from workers.run import Device, Ran
from workers.runners.engine import Loaded, Signature
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
            if ids.count("+") > 2:
                return Answer((), 0.001, OutOfMemory("too many +"))
            if "!" in ids:
                return Answer((), 0.001, InferenceFailed("cannot digest !"))
            if "x" in ids:
                self.die("killed by x")
                raise RunnerDied(self._death, started=True)
            return Answer((Part(len(ids), len(ids)),), 0.001)

    def die(self, reason: str) -> None:
        self._death = reason
        self._ended.set()

    async def died(self) -> str:
        await self._ended.wait()
        return self._death

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
