"""After a worker has ended without a goodbye: the records that may have been its end are tried before all others."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from producer_sdk.broker import Record
from producer_sdk.errors import RunnerCrashed

from .commit import PartitionLedger
from .consume import Intake
from .decode import Decoder
from .reception import Reception
from .reply import Scribe
from .retry_records import due_of, origin_of
from .return_address import read_return_address
from .suspects import Suspect, Suspects, Trial, begin, end
from .turn import Turn
from .work import Now, Outcome

PATIENCE_S = 10.0  # a partition that cannot be read (it has no leader), or a long batch, holds up the others no longer
ACKNOWLEDGED_S = 2.0  # a reply that cannot be delivered holds up the next trial no longer
Hold = Callable[[], Awaitable[None]]
_log = logging.getLogger("headrace.worker")


class Inspection:
    """Tries suspects, a few at a time, each trial committed beforehand. One event loop touches it; one task runs it.

    Other records wait meanwhile, so that the next end of this worker says whose fault it is.
    """

    def __init__(
        self,
        model: str,
        intake: Intake,
        suspects: Suspects,
        reception: Reception,
        decoder: Decoder,
        scribe: Scribe,
        attempt_limit: int,
        hand_over: Callable[[Sequence[Outcome]], None],
        is_busy: Callable[[], bool],
        runs: Callable[[], bool],
        turn: Turn,
    ) -> None:
        self._intake = intake
        self._suspects = suspects
        self._reception = reception
        self._decoder = decoder
        self._scribe = scribe
        self._limit = attempt_limit
        self._hand_over = hand_over
        self._is_busy = is_busy
        self._runs = runs
        self._model = model
        self._turn = turn
        self._waits_while: Callable[[], bool] = _never
        self._innocent: list[tuple[PartitionLedger, list[Record]]] = []
        self._looked_at = 0.0  # when suspects were seen last, monotonic
        self.active = False

    def __len__(self) -> int:
        """Suspects that wait for their trial."""
        return len(self._suspects)

    @property
    def waits(self) -> bool:
        """Whether nothing more is to be taken, until what is under way has come to its end."""
        return self._waits_while()

    def begin(self) -> None:
        """Partitions were assigned: look out for suspects, if there may be any."""
        expecting = [ledger for ledger in self._intake.ledgers.values() if ledger.expects_suspects]
        if expecting:
            _log.warning("A worker ended without a goodbye: its work in %d partitions of model %s is tried first",
                         len(expecting), self._model, extra={"action": "suspects"})  # fmt: skip
            self.active = True
            self._turn.ask(self._model)
            self._looked_at = time.monotonic()
            self._intake.reading.suspects_only = True

    def drop(self, ledgers: Sequence[PartitionLedger]) -> None:
        """Partitions are leaving."""
        self._suspects.drop(ledgers)

    def sort(self, records: Sequence[Record], ledger: PartitionLedger) -> None:
        """Set records of one partition aside, suspects and others apart."""
        innocent = []
        now = Now(time.monotonic(), int(time.time() * 1000))
        for record in records:
            # One of the retry topic that is not due yet has not been run: a trial of it would only wait.
            if ledger.is_suspect(record.offset) and due_of(record, now) is None:
                self._suspects.add(Suspect(record, ledger))
            else:
                innocent.append(record)
        if innocent:
            self._innocent.append((ledger, innocent))

    async def run(self, hold: Hold, stopping: Callable[[], bool]) -> None:
        """Try the suspects that have arrived; `hold` polls on, and returns when `waits` is over."""
        if len(self._suspects):
            await self._wait(lambda: self._turn.others_are_busy(self._model), PATIENCE_S, hold)
        while len(self._suspects) and not stopping():
            trial = self._suspects.next_trial()
            await self._try(trial, hold)
            if not stopping():  # else it is still under way: the drain finishes it, or this worker ends with it
                end(trial)
            self._looked_at = time.monotonic()
        if not stopping():
            await self._end_if_all_are_tried()

    async def _end_if_all_are_tried(self) -> None:
        expecting = [ledger for ledger in self._intake.ledgers.values() if ledger.expects_suspects]
        if expecting and time.monotonic() - self._looked_at > PATIENCE_S:
            for ledger in expecting:
                ledger.bound_suspects(0)
        elif expecting:
            return
        # What has been found out must be known to the next worker before anybody else can end this one.
        await self._intake.committing.surely()
        self.stop()
        released, self._innocent = self._innocent, []
        for ledger, records in released:
            if ledger.is_ours:
                await self._receive(records, ledger)

    def stop(self) -> None:
        """Try nobody any more."""
        self.active = self._intake.reading.suspects_only = False
        self._turn.leave(self._model)

    async def _try(self, trial: Trial, hold: Hold) -> None:
        """1. give up who has had all attempts; 2. commit who is tried; 3. let them on; 4. wait until they have run.

        What is left then is publishing, which ends no worker; it is waited for, but not for ever.
        """
        first = trial.suspects[0]
        if trial.alone and first.ledger.attempts(first.offset) >= self._limit:
            await self._give_up(first)  # 1
        else:
            begin(trial)
            await self._intake.committing.surely()  # 2
            for suspect in trial.suspects:
                if suspect.ledger.is_ours:
                    await self._receive([suspect.record], suspect.ledger)  # 3
            fetch_ends = time.monotonic() + PATIENCE_S  # who waits for a store ends no worker
            await self._wait(  # 4
                lambda: trial.pending and (self._runs() or (self._is_busy() and time.monotonic() < fetch_ends)),
                math.inf,
                hold,
            )
        await self._wait(lambda: trial.pending, ACKNOWLEDGED_S, hold)

    async def _wait(self, condition: Callable[[], bool], timeout_s: float, hold: Hold) -> None:
        ends = time.monotonic() + timeout_s
        self._waits_while = lambda: condition() and time.monotonic() < ends
        await hold()
        self._waits_while = _never

    async def _receive(self, records: Sequence[Record], ledger: PartitionLedger) -> None:
        await self._reception.receive(records, ledger, self._intake.lane(ledger.partition.topic))

    async def _give_up(self, suspect: Suspect) -> None:
        """Answer for a record that has ended too many workers, without touching it in this one."""
        attempts = suspect.ledger.attempts(suspect.offset)
        error = RunnerCrashed(f"the worker ended {attempts} times with this request in flight: it is not run again")
        origin = origin_of(suspect.record)
        lane = self._intake.lane(suspect.ledger.partition.topic)
        refused = await read_return_address(suspect.record, origin, error)
        if suspect.ledger.is_ours:
            rejected = self._decoder.given_up(suspect.record, suspect.ledger, refused, error, lane, time.monotonic())
            self._hand_over([self._scribe.rejected(rejected)])


def _never() -> bool:
    return False
