"""One simulated run from a seed: requests, random faults, healing, and the verdict."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import chaos_runner
import numpy as np
from chaos_judge import FORGIVEN, Judgement, Log, judge, promise_breaks
from chaos_runner import DEADLY, POISON, TRANSIENT
from chaos_verify import checked, disagreements, violations
from chaos_weather import ALL, Fault
from chaos_world import MODEL, PREFIX, World, simulated
from msgspec import Struct
from virtual_time import VirtualClock, run_virtual

from headrace.checker import Report
from producer_sdk import Client, HeadraceError
from producer_sdk.broker import BrokerError, Topic
from workers.drain import Exit

REQUESTS = 60
LOAD_S = 30.0
FAULTS = 5
HEALED_WITHIN_S = 120.0
STEPPED_S = 300.0  # a retry that a clock ahead has put off waits for as long
WAITS_S = 200.0
CANCELLED_REST = 9  # requests whose number ends so are given up by their callers


class Simulated(Struct, frozen=True):
    """What a seed came to.

    Attributes:
        verified_lost: lost requests, counted by the checker of `headrace verify`.
        recovery_s: simulated seconds from the end of the last fault until all that was accepted had its outcome.
        breaks: of the promise, as sentences; empty when it held.
    """

    seed: int
    faults: tuple[str, ...]
    sent: int
    judged: Judgement
    verified_lost: int
    seen_twice: tuple[str, ...]
    recovery_s: float
    breaks: tuple[str, ...]


def simulate(seed: int, faults: Sequence[Fault] = ALL, *, deadly: bool = True, **settings: object) -> Simulated:
    """Run a seed in virtual time; the same seed does the same again. `deadly`: one record ends its runner."""
    random.seed(seed)
    with simulated():
        return run_virtual(lambda clock: _Run(clock, seed, faults, deadly, settings).run())


def given_up(id: str) -> set[str]:
    """What a request may end with because its caller has cancelled it."""
    return {"CANCELLED"} if id.endswith(str(CANCELLED_REST)) else set()


class _Run:
    def __init__(
        self, clock: VirtualClock, seed: int, faults: Sequence[Fault], deadly: bool, settings: dict[str, object]
    ) -> None:
        self.orders = {7: POISON, 21: POISON, 40: TRANSIENT, 41: TRANSIENT} | ({33: DEADLY} if deadly else {})
        self.world = World(clock, seed, **({"attempt_limit": 8} | settings))
        self.seed = seed
        self.rng = random.Random(seed + 1)
        self.faults = [self.rng.choice(faults) for _ in range(FAULTS)]
        self.answers: dict[str, list[str]] = {}
        self.sent = 0

    async def run(self) -> Simulated:
        """1. workers; 2. requests and faults at once; 3. heal and wait; 4. stop in order; 5. judge."""
        world = self.world
        for name in ("w1", "w2"):  # 1
            await world.start_worker(name)
        await asyncio.sleep(5.0)
        admin = world.broker.admin()
        await admin.create_topics([Topic(f"{PREFIX}.mine", 1)])
        async with Client(world.broker, prefix=PREFIX) as client:
            asking = [asyncio.create_task(self._ask(client, n), name=f"ask {n}") for n in range(REQUESTS)]  # 2
            await asyncio.gather(*(self._strike(fault) for fault in self.faults))
            world.heal()  # 3
            world.broker.expire()
            recovery_s = await self._until(self._all_answered)
            await asyncio.wait(asking)
            await self._until(lambda: self._all_answered() and world.committed_everything())
        await self._stop_all()  # 4
        for asked in asking:
            asked.result()
        report = await checked(
            world.broker, world.topics, MODEL, self.answers, limit=world.attempt_limit + 1, stepped=world.stepped
        )
        return self._verdict(recovery_s, report)  # 5

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(self.rng.uniform(0.0, LOAD_S))
        await fault(self.world)

    async def _ask(self, client: Client, n: int) -> None:
        """One request: waited for, or told to reply to one of three topics."""
        await asyncio.sleep(self.rng.uniform(0.0, LOAD_S))
        order = self.orders.get(n, 0.0)
        id, inputs = f"r{n}", {"x": np.array([[order, n]], np.float32)}
        self.sent += 1
        if n % 10 == CANCELLED_REST:
            asking = asyncio.create_task(client.infer(MODEL, inputs, id=id, deadline_s=WAITS_S), name=f"cancel {n}")
            await asyncio.wait([asking], timeout=self.rng.uniform(0.0, 2.0))
            asking.cancel()
            await asyncio.wait([asking])
        elif n % 2:
            try:
                reply = await client.infer(MODEL, inputs, id=id, deadline_s=WAITS_S)
                self.answers.setdefault(id, []).append("OK")
                if reply.outputs["y"][0, 1] != 2 * n:
                    self.world.breaks.append(f"{id} was answered with another's result")
            except HeadraceError as err:
                self.answers.setdefault(id, []).append(err.code)
        else:
            reply_to = self.rng.choice([None, f"{PREFIX}.replies:0", f"{PREFIX}.mine"])
            try:
                await client.publish(MODEL, inputs, id=id, reply_to=reply_to)
            except BrokerError:
                pass  # unknown: it counts where the log holds it

    def _all_answered(self) -> bool:
        """Whether every request that was accepted by now has an outcome."""
        return all(asked.id in self.world.told_ids for log in self.world.asked.values() for asked in log)

    async def _until(self, holds: Callable[[], bool]) -> float:
        """Wait until something holds, or long enough; the seconds that it took."""
        began = self.world.clock.now_s
        limit_s = HEALED_WITHIN_S + (STEPPED_S if self.world.stepped else 0.0)
        while not holds() and self.world.clock.now_s - began < limit_s:  # noqa: ASYNC110 - it costs no time
            await asyncio.sleep(0.1)
        return self.world.clock.now_s - began

    async def _stop_all(self) -> None:
        for name, task in list(self.world.workers.items()):
            try:
                if not task.done():
                    code = await self.world.stop_worker(name)
                    if code is not Exit.CLEAN:
                        self.world.breaks.append(f"worker {name} ended with {code!r} although all was well")
                elif not self.world.processes[name].crashed.is_set():
                    task.result()
            except Exception as err:  # noqa: BLE001 - whatever ended a worker is a finding
                self.world.breaks.append(f"worker {name} died: {err!r}")
        if not self.world.committed_everything():
            self.world.breaks.append("not everything is committed, although all is answered and the workers have left")

    def _verdict(self, recovery_s: float, report: Report) -> Simulated:
        world = self.world
        asked = tuple(each for log in world.asked.values() for each in log)
        group = world.broker._groups[world.topics.group(MODEL)]
        committed = {where: each.offset for where, each in group.committed.items()}
        # A reply in a topic that was then deleted is given again elsewhere, as an error.
        forgiven = FORGIVEN | ({"INVALID_REQUEST"} if world.deleted else set())
        judged = judge(Log(asked, tuple(world.told), committed, frozenset(world.moved_to)), forgiven)
        seen_twice = tuple(id for id, codes in self.answers.items() if len(codes) > 1)
        breaks = [*world.breaks, *promise_breaks(judged, seen_twice), *self._wrong_codes(), *self._ran_too_often()]
        if not world.deleted:  # else the topics no longer hold what was told
            breaks += [*violations(report), *disagreements(report, judged)]
        names = tuple(fault.__name__ for fault in self.faults)
        return Simulated(self.seed, names, self.sent, judged, report.lost, seen_twice, recovery_s, tuple(breaks))

    def _wrong_codes(self) -> list[str]:
        """Each request ends as its inputs say, unless a clock or a deleted topic explains it."""
        expected = {
            "r7": "INFERENCE_FAILED",
            "r21": "INFERENCE_FAILED",
            "r33": "RUNNER_CRASHED" if 33 in self.orders else "OK",
        }
        excused = {"DEADLINE_EXCEEDED", "QUEUE_FULL"} if self.world.stepped else set()
        excused |= {"INVALID_REQUEST"} if self.world.deleted else set()
        wrong = [
            f"{told.id} ended as {told.code}"
            for told in self.world.told
            if not told.dead and told.code not in excused | {expected.get(told.id, "OK")} | given_up(told.id)
        ]
        return wrong[:5]

    def _ran_too_often(self) -> list[str]:
        """attempts <= limit + 1 for the record that ends its runner."""
        runs = sum("r33" in ids for runner in chaos_runner.runners for ids in runner.ran)
        limit = self.world.attempt_limit + 1 + self.world.crashes
        return [f"the deadly record ran {runs} times, at most {limit} are allowed"] if runs > limit else []
