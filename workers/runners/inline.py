"""A runner that is a thread of the worker, for tests and tiny machines: the model shares the worker's GIL and fate."""

from __future__ import annotations

import asyncio
import queue
import threading

from producer_sdk.errors import HeadraceError

from ..work import Answer, Batch
from .answers import read_answer
from .engine import Engine, Loaded, ModelSpec, Signature
from .load import DEFAULT_MAX_BATCH_BYTES, open_session
from .messages import Done, Run
from .pending import Pending, Waiting
from .placing import Padded, Placement, fit_rows, place
from .runner import RunnerDied
from .session import ContextLost, Session
from .shm import Heap


class InlineRunner:
    """The Runner whose model runs in a thread. A run over the time limit cannot be ended, only given up."""

    def __init__(self, spec: ModelSpec, *, slots: int = 2, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self.slots = slots
        self._spec = spec
        self._max_batch_bytes = max_batch_bytes
        self._inputs = [Heap() for _ in range(slots)]
        self._outputs = [Heap() for _ in range(slots)]
        self._placements: list[Placement | None] = [None] * slots
        self._signature = Signature((), ())
        self._sequence = 0
        self._begun = 0
        self._death = ""
        self._dead = asyncio.Event()
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def start(self) -> Loaded:
        """See Runner."""
        self._loop = asyncio.get_running_loop()
        self._pending: Pending[Done] = Pending(self._loop, self._late)
        loading: asyncio.Future[Loaded] = self._loop.create_future()
        name = f"runner-{self._spec.name}:{self._spec.version}"
        self._thread = threading.Thread(target=self._work, args=(loading,), name=name, daemon=True)
        self._thread.start()
        loaded = fit_rows(await loading, self._max_batch_bytes)
        self._signature = loaded.signature
        return loaded

    def place(self, slot: int, batch: Batch) -> Padded | None:
        """See Runner."""
        self._placements[slot] = None
        placement = place(batch, self._signature.inputs, self._inputs[slot], self._max_batch_bytes)
        self._placements[slot] = placement
        return placement.padded

    async def run(self, slot: int, first: int, last: int) -> Answer:
        """See Runner."""
        if self._death:
            raise RunnerDied(self._death, started=False)
        placement = self._placements[slot]
        assert placement is not None, "place comes before run"
        self._sequence += 1
        self._runs.put(placement.run(self._sequence, slot, 0, first, last))
        done = await self._pending.add(self._sequence, slot, self._spec.attempt_timeout_s)
        return read_answer(done, self._signature.outputs, self._outputs[slot].view)

    async def died(self) -> str:
        """See Runner."""
        await self._dead.wait()
        return self._death

    async def stop(self, timeout_s: float = 5.0) -> None:
        """See Runner. A model that does not come back within `timeout_s` is left to its thread."""
        self._die("stopped by the worker", blame=False)
        self._runs.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, timeout_s)

    def _late(self, waiting: Waiting[Done]) -> None:
        self._die(f"no answer within attempt_timeout_s {waiting.timeout_s:g} s: given up", blame=True)

    def _die(self, reason: str, *, blame: bool) -> None:
        self._death = self._death or reason
        self._dead.set()
        if self._thread is not None:
            self._pending.fail(self._death, lambda waiting: blame and waiting.sequence == self._begun)

    def _tell(self, call: object, *arguments: object) -> None:
        """From the thread to the loop."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)  # type: ignore[arg-type]
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear it

    def _work(self, loading: asyncio.Future[Loaded]) -> None:
        """The thread."""
        try:
            session, loaded, engine = open_session(self._spec, self._max_batch_bytes)
        except HeadraceError as err:
            self._tell(_fail, loading, err)
            return
        self._tell(_give, loading, loaded)
        self._serve(session, engine)

    def _serve(self, session: Session, engine: Engine) -> None:
        while not self._death and (run := self._runs.get()) is not None:
            self._begun = run.sequence
            try:
                done = session.run(run, self._inputs[run.slot].view, self._outputs[run.slot])
            except ContextLost as err:
                self._tell(self._lost, str(err))
                break
            self._tell(self._answered, done)
        engine.close()

    def _lost(self, reason: str) -> None:
        self._die(f"its device was lost to it: {reason}", blame=True)

    def _answered(self, done: Done) -> None:
        if self._death:
            return
        waiting = self._pending.answer()
        if not waiting.future.done():
            waiting.future.set_result(done)


def _give(loading: asyncio.Future[Loaded], loaded: Loaded) -> None:
    if not loading.done():
        loading.set_result(loaded)


def _fail(loading: asyncio.Future[Loaded], err: HeadraceError) -> None:
    if not loading.done():
        loading.set_exception(err)
