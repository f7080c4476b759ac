"""consume -> decode -> backlog: takes what there is room for, lane by lane, and keeps polling where there is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from producer_sdk.topics import Lane

from .backlog import Backlog
from .claims import Claims
from .consume import Intake
from .events import Bell
from .inspection import Inspection
from .later import Later
from .reception import Reception

MAX_HAUL = 256  # thousands of records alive at once cost twice as much each
LEAST_HAUL = 64  # a lane with less room is closed until it is half empty: one haul for many costs far less than many
POLL_S = 0.25
TURNS = 2  # of the event loop between two hauls: in the first a batch is closed, in the second it goes to the runner
HOLD_S = 0.5


class Taking:
    """Takes records of one model. One event loop touches it; one task runs `run`.

    `wake` is told whether nothing more arrives, `due` is called when something may be committed. While `held_up`
    nothing is taken, whatever room there is; while `may_not_inspect` no suspect is tried.

    A lane whose part of the backlog is full is closed: its partitions are paused, those of the others are read on.

    Attributes:
        room: to be set when more may be taken.
        polled_at: monotonic seconds of the last poll.
    """

    def __init__(
        self,
        intake: Intake,
        inspection: Inspection,
        reception: Reception,
        backlog: Backlog,
        later: Later,
        *,
        held_up: Callable[[], bool],
        may_not_inspect: Callable[[], bool],
        wake: Callable[[bool], None],
        due: Callable[[], None],
        claims: Claims | None = None,
    ) -> None:
        self._claims = claims
        self._intake = intake
        self._inspection = inspection
        self._reception = reception
        self._backlog = backlog
        self._later = later
        self._held_up = held_up
        self._may_not_inspect = may_not_inspect
        self._wake = wake
        self._due = due
        self._stopping = False
        self.room = Bell()
        self.polled_at = time.monotonic()

    def stop(self) -> None:
        """Take nothing more; `run` ends after the poll that it is in."""
        self._stopping = True
        self.room.set()

    async def run(self) -> None:
        """Take until stopped."""
        while not self._stopping:
            if self._inspection.active and not self._may_not_inspect():
                await self._inspection.run(self._hold, lambda: self._stopping)
                self._wake(False)
            if most := self._most():
                self._wake(False)
                await self._haul(most, POLL_S)
                for _ in range(TURNS):
                    await asyncio.sleep(0)  # a poll that finds records does not yield by itself
            else:
                await self._hold()

    def reopen(self) -> None:
        """Read on from the lanes that have become half empty; a poll under way gives their records, too."""
        reading = self._intake.reading
        if reading.closed_lanes:
            still = frozenset(lane for lane in reading.closed_lanes if not self._half_empty(lane))
            if still != reading.closed_lanes:
                reading.closed_lanes = still
                self._intake.choose()

    def _room(self, lane: Lane) -> int:
        room = self._backlog.room(lane)
        return room if self._claims is None else min(room, self._claims.room(lane))

    def _half_empty(self, lane: Lane) -> bool:
        return self._backlog.half_empty(lane) and (self._claims is None or self._claims.half_empty(lane))

    def _most(self) -> int:
        """Records that may be taken now, of whatever lane is open; closes the lanes that are full."""
        if self._held_up():
            return 0
        rooms = {lane: self._room(lane) for lane in Lane if lane not in self._intake.reading.closed_lanes}
        most, least = MAX_HAUL, min(LEAST_HAUL, self._backlog.max_requests // 4 + 1)
        full = [lane for lane, room in rooms.items() if room < least]
        if full:
            self._intake.reading.closed_lanes |= frozenset(full)
        open_rooms = [room for room in rooms.values() if room >= least]
        if self._intake.reading.closed_lanes:  # one that is half empty may be opened while the poll is under way
            most = min(MAX_HAUL, (self._backlog.max_requests + 1) // 2)
        return min(most, *open_rooms) if open_rooms else 0

    async def _haul(self, max_records: int, timeout_s: float) -> None:
        # Retries have the lanes of their originals, which may be full although their topic is read.
        is_any_full = any(self._room(lane) == 0 for lane in Lane)
        self._intake.reading.no_retries = self._later.full or is_any_full
        records = await self._intake.poll(max_records, timeout_s)
        self.polled_at = time.monotonic()
        # All ledgers before the first wait: by its end a partition may have another, which must not take this haul.
        ledgers = self._intake.ledgers
        ours = [(ledgers[each], haul) for each, haul in records.items() if each in ledgers and ledgers[each].is_ours]
        hauls = [(ledger, ledger.take_all(haul)) for ledger, haul in ours]
        for ledger, taken in hauls:
            if self._inspection.active:
                self._inspection.sort(taken, ledger)
            elif ledger.is_ours:
                await self._reception.receive(taken, ledger, self._intake.lane(ledger.partition.topic))
        if records:
            self._wake(False)
        if self._intake.is_due:  # what was completed before, and gaps, move the commit on, too
            self._due()

    async def _hold(self) -> None:
        """No room: pause the partitions and keep polling, so that the membership lives on."""
        self._wake(True)
        self._intake.reading.nothing = True
        while self._crowded():
            await self._haul(1, 0.0)
            polls_again = time.monotonic() + HOLD_S
            while self._crowded() and (left_s := polls_again - time.monotonic()) > 0:
                self.room.clear()
                await self.room.heard(left_s)
        self._intake.reading.nothing = False

    def _crowded(self) -> bool:
        if self._stopping:
            return False
        return self._held_up() or len(self._intake.reading.closed_lanes) == len(Lane)
