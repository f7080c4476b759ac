"""A runner that is a process of its own: batches go through shared memory, a short message each through a socket."""

from __future__ import annotations

import asyncio
import socket
from enum import Enum

import msgspec

from producer_sdk.errors import InvalidRequest, OutOfMemory

from ..work import Answer, Batch
from .answers import read_answer
from .channel import Channel
from .engine import Loaded, LoadFailed, ModelSpec, Signature
from .load import DEFAULT_MAX_BATCH_BYTES
from .messages import (
    HEAD_BYTES,
    SEQUENCE,
    Ready,
    Refused,
    Start,
    decode_done,
    decode_greeting,
    encode,
)
from .pending import Pending, Waiting
from .placing import Padded, Placement, batch_bytes, fit_rows, place
from .runner import RunnerDied
from .shm import Region
from .spawn import ChildProcess

LOAD_TIMEOUT_S = 1800.0
GRACE_S = 1.0
SLOTS = 8  # one batch runs and one lies ready, or several that are short
RESERVED = 2  # of them, those whose memory is there from the start
STOPPED = "stopped by the worker"


class State(Enum):
    """Where a runner process is in its life."""

    NEW = "new"  # not started
    LOADING = "loading"  # started; the model loads and warms up
    READY = "ready"  # it answers runs
    DEAD = "dead"  # ended, or never to be started


class RunnerProcess:
    """The Runner whose model runs in a child process. One event loop's thread uses it."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        slots: int = SLOTS,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        load_timeout_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        self.slots = slots
        self.state = State.NEW
        self._spec = spec
        self._max_batch_bytes = max_batch_bytes
        self._load_timeout_s = load_timeout_s
        self._inputs: list[Region] = []
        self._outputs: list[Region] = []
        self._placements: list[Placement | None] = [None] * slots
        self._signature = Signature((), ())
        self._sequence = 0
        self._death = ""
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process id; 0 before it is started."""
        return 0 if self.state is State.NEW else self._child.pid

    async def start(self) -> Loaded:
        """See Runner."""
        assert self.state is State.NEW, "a runner is started once"
        self._loop = asyncio.get_running_loop()
        self._pending: Pending[Ready | Refused | Answer] = Pending(self._loop, self._late)
        self._inputs = [Region.create(1) for _ in range(self.slots)]
        self._outputs = [Region.create(HEAD_BYTES) for _ in range(self.slots)]
        self._spawn()
        greeting = await self._pending.add(0, 0, self._load_timeout_s)
        if isinstance(greeting, Refused):
            await self.stop(GRACE_S)
            raise LoadFailed(greeting.message, greeting.kind)
        assert isinstance(greeting, Ready), "the first message is a greeting"
        return await self._settle(greeting.loaded)

    def place(self, slot: int, batch: Batch) -> Padded | None:
        """See Runner."""
        if self.state is State.DEAD:
            return None  # the run will say so
        self._placements[slot] = None
        placement = place(batch, self._signature.inputs, self._inputs[slot], self._max_batch_bytes)
        self._placements[slot] = placement
        return placement.padded

    async def run(self, slot: int, first: int, last: int) -> Answer:
        """See Runner."""
        if self.state is State.DEAD:
            raise RunnerDied(self._death, started=False)
        placement = self._placements[slot]
        assert placement is not None, "place comes before run"
        self._sequence += 1
        run = placement.run(self._sequence, slot, len(self._inputs[slot].view), first, last)
        try:
            message = encode(run)
        except (OverflowError, TypeError, ValueError) as err:
            return Answer((), 0.0, InvalidRequest(f"the parameters cannot be handed to the model: {err}"))
        self._channel.send(message)
        answer = await self._pending.add(self._sequence, slot, self._spec.attempt_timeout_s)
        assert isinstance(answer, Answer), "runs are answered by answers"
        return answer

    async def died(self) -> str:
        """See Runner."""
        await self._ended.wait()
        return self._death

    async def stop(self, timeout_s: float = 5.0) -> None:
        """See Runner."""
        if self.state is State.NEW:
            self.state = State.DEAD
            self._ended.set()
        self._death = self._death or STOPPED
        if self.state is State.DEAD:
            return
        self._channel.say_end()
        try:
            await asyncio.wait_for(self._ended.wait(), timeout_s)
        except TimeoutError:
            pass  # it does not want to go
        finally:
            self._child.kill()
        await self._ended.wait()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        self.state = State.LOADING
        fds = [region.fd for region in (*self._inputs, *self._outputs)]
        self._channel = Channel(self._loop, ours, self._on_message, self._on_end)
        label = f"{self._spec.name}:{self._spec.version}"
        self._child = ChildProcess(label, self._spec.threads, theirs, fds, self._tell_exit)
        inputs, outputs = tuple(fds[: self.slots]), tuple(fds[self.slots :])
        self._channel.send(encode(Start(self._spec, inputs, outputs, self._max_batch_bytes)))

    async def _settle(self, loaded: Loaded) -> Loaded:
        """Reserve memory for full batches in the slots that are always in use; lower a size that could never fit."""
        try:
            fitted = fit_rows(loaded, self._max_batch_bytes)
            for region in self._inputs[:RESERVED]:
                region.reserve(batch_bytes(fitted.signature.inputs, fitted.max_batch_size))
            for region in self._outputs[:RESERVED]:
                outputs = HEAD_BYTES + batch_bytes(fitted.signature.outputs, fitted.max_batch_size)
                region.reserve(min(outputs, self._max_batch_bytes))
        except (LoadFailed, OutOfMemory) as err:
            await self.stop(GRACE_S)
            raise LoadFailed(err.message) from err
        self._signature = fitted.signature
        self.state = State.READY
        return fitted

    def _on_message(self, message: bytes) -> None:
        waiting = self._pending.head
        if waiting is None:
            self._give_up("sent an answer that nobody asked for")
            return
        try:
            answer = self._read(message, waiting)
        except (msgspec.MsgspecError, OSError, ValueError, IndexError) as err:
            self._give_up(f"sent an answer that cannot be read ({err})")
            return
        self._pending.answer()
        if not waiting.future.done():
            waiting.future.set_result(answer)

    def _read(self, message: bytes, waiting: Waiting[Ready | Refused | Answer]) -> Ready | Refused | Answer:
        """What the runner says. Of an answer the outputs are looked up now: views of them outlive the region.

        The runner may end, and its regions be closed, before whoever waits for the answer goes on.
        """
        if not waiting.sequence:
            return decode_greeting(message)
        done = decode_done(message)
        if done.sequence != waiting.sequence:
            raise ValueError("it is of another run")
        region = self._outputs[waiting.slot]
        region.follow(done.size)
        return read_answer(done, self._signature.outputs, region.view)

    def _late(self, waiting: Waiting[Ready | Refused | Answer]) -> None:
        name = "attempt_timeout_s" if waiting.sequence else "load_timeout_s"
        self._give_up(f"no answer within {name} {waiting.timeout_s:g} s")

    def _give_up(self, reason: str) -> None:
        self._death = self._death or f"{reason}: killed"
        self._child.kill()

    def _on_end(self) -> None:
        """The socket ended. The process has, too, most likely, and how it did is worth waiting for."""
        if self.state is not State.DEAD:
            self._loop.call_later(GRACE_S, self._still_there)

    def _still_there(self) -> None:
        if self.state is not State.DEAD:
            self._give_up("closed its socket to the worker")

    def _tell_exit(self, how: str) -> None:
        """Called in the child's thread."""
        try:
            self._loop.call_soon_threadsafe(self._on_exit, how)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear it

    def _on_exit(self, how: str) -> None:
        self._channel.drain()
        self._channel.close()
        self.state = State.DEAD
        stopped = self._death == STOPPED
        self._death = self._death or how
        self._pending.fail(self._death, lambda waiting: not stopped and self._has_begun(waiting))
        for region in (*self._inputs, *self._outputs):
            region.close()
        self._placements = [None] * self.slots
        self._ended.set()

    def _has_begun(self, waiting: Waiting[Ready | Refused | Answer]) -> bool:
        (sequence,) = SEQUENCE.unpack_from(self._outputs[waiting.slot].view)
        return bool(waiting.sequence) and sequence == waiting.sequence
