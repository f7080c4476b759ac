"""Keeps a runner of one model alive: starts it, notices its death, starts another, and says where the model stands."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from producer_sdk.announcements import ModelState

from .circuit import Circuit
from .retry import Trust, restart_delay_s
from .runners.engine import Loaded, LoadFailed
from .runners.runner import Runner, RunnerDied

PATIENCE_S = 10.0  # a restart that takes longer is told to others
REST_S = 30.0  # a runner that nobody asked for so long, and that lives, closes the circuit
_log = logging.getLogger("headrace.worker")


class RunnerKeeper:
    """One event loop touches it.

    `state` is what others are told: it stays READY through a quick restart, for requests wait meanwhile. While the
    circuit is open it is UNAVAILABLE, also at times when a batch can be run.
    """

    def __init__(
        self, make_runner: Callable[[], Runner], model: str, changed: Callable[[], None], circuit_limit: int
    ) -> None:
        self._make_runner = make_runner
        self._model = model
        self._changed = changed
        self._circuit = Circuit(circuit_limit)
        self._failed_starts = 0  # in a row
        self._restarting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._up = False
        self._stopped = False
        self.runner = make_runner()
        self.trust = Trust()  # in this runner
        self.in_flight = 0  # batches
        self.deaths = 0
        self.state = ModelState.LOADING
        self.reason = ""

    @property
    def ready(self) -> bool:
        """Whether a batch can be run now."""
        return self._up and not (self._circuit.open and self.in_flight)

    async def start(self) -> Loaded:
        """Load the model.

        Raises:
            LoadFailed, RunnerDied: it cannot be loaded; the model stays unavailable.
        """
        try:
            loaded = await self.runner.start()
        except (LoadFailed, RunnerDied) as err:
            self.state, self.reason = ModelState.UNAVAILABLE, str(err)
            await self.runner.stop(0.0)
            raise
        self._now_up()
        return loaded

    def start_soon(self) -> None:
        """Load the model while others go on; if that fails try again, as after a death."""
        self._restarting = asyncio.create_task(self._start_another(self.runner, ""), name=f"start {self._model}")

    async def stop(self, timeout_s: float) -> None:
        self._stopped = True
        self._down()
        self.state, self.reason = ModelState.UNAVAILABLE, "the worker is stopping"
        for task in (self._restarting, self._watching):
            if task is not None:
                task.cancel()
        await self.runner.stop(timeout_s)

    def worked(self) -> None:
        """A batch ran to its end."""
        was_open = self._circuit.open
        self._circuit.worked()
        if was_open and self._up:
            self._tell(ModelState.READY, "")

    def died(self, dead: Runner, how: str, *, known: bool = False) -> None:
        """End this runner and start another, once for each death, however many batches saw it.

        `known`: by a request that ran alone under suspicion, which is no reason for others to wait longer.
        """
        restarting = self._restarting is not None and not self._restarting.done()
        if dead is not self.runner or restarting or self._stopped:
            return
        self._down()
        self.deaths += 1
        self._circuit.died(how, known=known)
        _log.error("The runner of model %s died: %s", self._model, how, extra={"action": "runner_died"})
        self._restarting = asyncio.create_task(self._start_another(dead, how), name=f"restart {self._model}")

    async def _start_another(self, dead: Runner, how: str) -> None:
        began = time.monotonic()
        overdue = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell_overdue, how)
        try:
            await dead.stop(0.0)
            while not await self._started_another():
                pass  # it has waited before
        finally:
            overdue.cancel()
        _log.info("Another runner of model %s is up after %.1f s", self._model, time.monotonic() - began,
                  extra={"action": "runner_back"})  # fmt: skip
        self._now_up()

    async def _started_another(self) -> bool:
        delay_s = restart_delay_s(self._circuit.deaths + self._failed_starts)
        if self._circuit.open and not self._failed_starts:
            self._tell(ModelState.UNAVAILABLE, f"{self._circuit.reason}; it is started again in {delay_s:.1f} s")
        await asyncio.sleep(delay_s)
        try:
            self.runner = self._make_runner()
            await self.runner.start()
        except Exception as err:  # noqa: BLE001 - the top of a task, without which the model would never come back
            self._failed_starts += 1
            self._tell(ModelState.UNAVAILABLE, str(err))
            _log.error("Model %s cannot be loaded: %s", self._model, err, extra={"action": "load_failed"})
            await self.runner.stop(0.0)
            return False
        return True

    async def _watch(self, runner: Runner) -> None:
        """Notice a runner that dies while it has nothing to do, before a request has to wait for its successor."""
        how = await runner.died()
        if not self.in_flight:  # else the run tells, and knows whose fault it is
            self.died(runner, how)

    def _now_up(self) -> None:
        self._up = True
        self._failed_starts = 0
        self.trust = Trust()
        self._watching = asyncio.create_task(self._watch(self.runner), name=f"watch {self._model}")
        if self._circuit.open:
            self._await_rest()
            self._tell(ModelState.UNAVAILABLE, f"{self._circuit.reason}; it is up again and tries one batch")
        else:
            self._tell(ModelState.READY, "")

    def _await_rest(self) -> None:
        self._rest = asyncio.get_running_loop().call_later(REST_S, self._rested)

    def _rested(self) -> None:
        if not self._circuit.open:
            return
        if self.in_flight:
            self._await_rest()
            return
        self._circuit.rested()
        self._tell(ModelState.READY, "")

    def _down(self) -> None:
        self._up = False
        if self._rest is not None:
            self._rest.cancel()

    def _tell_overdue(self, how: str) -> None:
        if not self._circuit.open:
            self._tell(ModelState.LOADING, how)

    def _tell(self, state: ModelState, reason: str) -> None:
        self.state, self.reason = state, reason
        self._changed()
