"""A runner inside the event loop, for virtual time: it doubles its inputs, and does what their first number says."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
from chaos_process import SimulatedProcess, current

from producer_sdk.errors import InferenceFailed, QueueFull
from producer_sdk.tensors import Datatype
from workers.runners.engine import Loaded, ModelSpec, Signature, TensorSpec
from workers.runners.runner import RunnerDied
from workers.work import Answer, Batch, Block, Part, Work

POISON = 666.0  # fails the batch that it is in
DEADLY = 9.0  # ends the runner
FATAL = 13.0  # ends the worker
TRANSIENT = 5.0  # fails twice in a way that is tried again, then runs
LOAD_S = 0.5
RUN_S = 0.1
SIGNATURE = Signature((TensorSpec("x", Datatype.FP32, (2,)),), (TensorSpec("y", Datatype.FP32, (2,)),))
FAILURES = 2

runners: list[LoopRunner] = []  # of this run; a new world empties it
failed: Counter[str] = Counter()  # transient failures by id


class LoopRunner:
    """Stands in for `RunnerProcess`. One event loop touches it."""

    def __init__(self, spec: ModelSpec, *, slots: int = 2, **limits: object) -> None:
        self.slots = slots
        self.ran: list[tuple[str, ...]] = []
        self.process: SimulatedProcess = current.get()
        self._max_batch_size = spec.max_batch_size
        self._placed: dict[int, Batch] = {}
        self._turn = asyncio.Lock()
        self._death = ""
        self._ended = asyncio.Event()
        runners.append(self)

    async def start(self) -> Loaded:
        """See Runner."""
        await asyncio.sleep(LOAD_S)
        return Loaded(SIGNATURE, "python", self._max_batch_size)

    def place(self, slot: int, batch: Batch) -> None:
        """See Runner."""
        self._placed[slot] = batch

    async def run(self, slot: int, first: int, last: int) -> Answer:
        """See Runner."""
        async with self._turn:
            self._check(started=False)
            works = self._placed[slot].works[first:last]
            self.ran.append(tuple(work.request.id for work in works))
            await self._busy()
            await self.process.until_thawed()
            self._check(started=True)
            return self._answer(works)

    def die(self, reason: str) -> None:
        self._death = self._death or reason
        self._ended.set()

    async def died(self) -> str:
        """See Runner."""
        await self._ended.wait()
        return self._death

    async def stop(self, timeout_s: float = 5.0) -> None:
        """See Runner."""
        self.die("stopped by the worker")

    async def _busy(self) -> None:
        try:
            async with asyncio.timeout(RUN_S):
                await self._ended.wait()
        except TimeoutError:
            pass  # the run has taken its time and nobody has ended it

    def _check(self, *, started: bool) -> None:
        if self._death:
            raise RunnerDied(self._death, started=started)

    def _answer(self, works: tuple[Work, ...]) -> Answer:
        rows = np.concatenate([work.request.inputs["x"].to_array() for work in works])
        orders = set(rows[:, 0].tolist())
        if FATAL in orders:
            self.process.crash()
            raise RunnerDied("its worker has crashed", started=True)
        if DEADLY in orders:
            self.die("a record ended it")
            self._check(started=True)
        if POISON in orders:
            return Answer((), RUN_S, InferenceFailed("cannot digest 666"))
        return Answer(tuple(map(_part, works)), RUN_S)


def _part(work: Work) -> Part:
    rows = work.request.inputs["x"].to_array()
    if rows[0, 0] == TRANSIENT and failed[work.request.id] < FAILURES:
        failed[work.request.id] += 1
        return Part(1, len(rows), error=QueueFull("what the model asks is busy"))
    return Part(1, len(rows), (Block("y", Datatype.FP32, (2,), (rows * 2).astype(np.float32).tobytes()),))
