"""The worker's face of a runner, whichever isolation it has: process.py or inline.py stand behind it."""

from __future__ import annotations

from typing import Protocol

from ..work import Answer, Batch
from .engine import Loaded
from .placing import Padded

KILLED = "killed by signal 9 (SIGKILL), possibly out of memory"  # how a runner died that nobody here has killed


class RunnerDied(Exception):
    """The runner process is gone; the message says how (signal, exit code, time limit).

    `started` tells whether this run had been begun: only then can it be what killed the runner. `killed`: by signal 9,
    and not by the worker; most likely by the kernel, for want of memory.
    """

    def __init__(self, reason: str, *, started: bool) -> None:
        super().__init__(reason)
        self.started = started
        self.killed = reason == KILLED


class Runner(Protocol):
    """Runs batches of one model version, one at a time, in the order of the `run` calls.

    Has `slots` places for batches, so that the next is assembled while one runs. Used by one task of the event loop;
    `run` calls may overlap on different slots. A runner that died stays dead: make another.
    """

    slots: int

    async def start(self) -> Loaded:
        """Load the model and warm it up.

        Raises:
            LoadFailed: the model cannot be loaded; the message says why.
            RunnerDied: the process ended while loading.
        """
        ...

    def place(self, slot: int, batch: Batch) -> Padded | None:
        """Copy the batch's inputs into the slot; what of them is padding, None where nothing is padded.

        Raises:
            PayloadTooLarge: they need more memory than a slot may take.
        """
        ...

    async def run(self, slot: int, first: int, last: int) -> Answer:
        """Run the records `first` to `last` (not included) of the batch in the slot.

        The answer's views last until the next `run` or `place` on that slot. A fault of the model code is an answer.

        Raises:
            RunnerDied: the process ended, or `attempt_timeout_s` passed and it was killed. Only the run that had
                started is at fault; runs behind it raise RunnerDied with `started` False.
        """
        ...

    async def died(self) -> str:
        """Wait until it has died or was stopped; how, as a sentence."""
        ...

    async def stop(self, timeout_s: float = 5.0) -> None:
        """End it: ask, wait, kill. Safe to call at any time, also after death."""
        ...
