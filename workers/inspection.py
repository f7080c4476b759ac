"""After a worker has ended without a goodbye: the records that may have been its end are tried before all others."""

from __future__ import annotations

import logging
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
from .work import Now, Outcome

PATIENCE_S = 30.0  # a partition that cannot be read (it has no leader) holds up the others no longer
_log = logging.getLogger("headrace.worker")


class Inspection:
    """Tries suspects, a few at a time, each trial committed beforehand. One event loop touches it; one task runs it.

    Other records wait meanwhile, so that the next end of this worker says whose fault it is.
    """

    def __init__(
        self,
        intake: Intake,
        suspects: Suspects,
        reception: Reception,
        decoder: Decoder,
        scribe: Scribe,
        attempt_limit: int,
        hand_over: Callable[[Sequence[Outcome]], None],
    ) -> None:
        self._intake = intake
        self._suspects = suspects
        self._reception = reception
        self._decoder = decoder
        self._scribe = scribe
        self._limit = attempt_limit
        self._hand_over = hand_over
        self._trial: Trial | None = None
        self._innocent: list[tuple[PartitionLedger, list[Record]]] = []
        self._looked_at = 0.0  # when suspects were seen last, monotonic
        self.active = False

    def __len__(self) -> int:
        """Suspects that wait for their trial."""
        return len(self._suspects)

    @property
    def in_trial(self) -> bool:
        """Whether suspects that were let on have no outcome yet."""
        return self._trial is not None and self._trial.pending

    def begin(self) -> None:
        """Partitions were assigned: look out for suspects, if there may be any."""
        if any(ledger.expects_suspects for ledger in self._intake.ledgers.values()):
            self.active = True
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

    async def run(self, hold: Callable[[], Awaitable[None]], stopping: Callable[[], bool]) -> None:
        """Try the suspects that have arrived; `hold` waits, polling on, until `in_trial` is over."""
        if len(self._suspects):
            _log.warning("%d records were in flight when a worker ended without a goodbye: they run first",
                         len(self._suspects), extra={"action": "suspects"})  # fmt: skip
        while len(self._suspects) and not stopping():
            await self._try(self._suspects.next_trial(), hold)
            self._looked_at = time.monotonic()
        if stopping():
            return
        if time.monotonic() - self._looked_at > PATIENCE_S:
            for ledger in self._intake.ledgers.values():
                ledger.bound_suspects(0)
        if not any(ledger.expects_suspects for ledger in self._intake.ledgers.values()):
            self.active = self._intake.reading.suspects_only = False
            released, self._innocent = self._innocent, []
            for ledger, records in released:
                if ledger.is_ours:
                    await self._receive(records, ledger)

    async def _try(self, trial: Trial, hold: Callable[[], Awaitable[None]]) -> None:
        """1. give up who has had all attempts; 2. commit who is tried; 3. let them on; 4. wait for their outcomes."""
        first = trial.suspects[0]
        if trial.alone and first.ledger.attempts(first.offset) >= self._limit:
            await self._give_up(first)  # 1
            return
        begin(trial)
        await self._intake.commit_surely()  # 2
        for suspect in trial.suspects:
            if suspect.ledger.is_ours:
                await self._receive([suspect.record], suspect.ledger)  # 3
        self._trial = trial
        await hold()  # 4
        self._trial = None
        end(trial)

    async def _receive(self, records: Sequence[Record], ledger: PartitionLedger) -> None:
        await self._reception.receive(records, ledger, self._intake.lane(ledger.partition.topic))

    async def _give_up(self, suspect: Suspect) -> None:
        """Answer for a record that has ended too many workers, without touching it in this one."""
        attempts = suspect.ledger.attempts(suspect.offset)
        error = RunnerCrashed(f"the worker ended {attempts} times with this request in flight: it is not run again")
        origin = origin_of(suspect.record)
        lane = self._intake.lane(suspect.ledger.partition.topic)
        refused = await read_return_address(suspect.record, origin, error)
        rejected = self._decoder.given_up(suspect.record, suspect.ledger, refused, error, lane, time.monotonic())
        self._hand_over([self._scribe.rejected(rejected)])
