"""The records of one model arrive: membership of its group, a ledger for each assigned partition, pause and resume."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from producer_sdk.broker import (
    Broker,
    BrokerError,
    Committed,
    Consumer,
    GroupOptions,
    Misconfigured,
    Record,
    TopicPartition,
)
from producer_sdk.topics import Lane, Topics

from .commit import PartitionLedger
from .committing import Committing, Told
from .progress import ProgressWatch, Sight, Verdict
from .reading import Reading

STOP_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
CALM_S = 60.0  # a consumer that failed sooner than so after it had joined waits longer each time
_log = logging.getLogger("headrace.worker")

Settle = Callable[[Sequence[PartitionLedger]], Awaitable[None]]
Lost = Callable[[Sequence[PartitionLedger]], None]
Haul = Mapping[TopicPartition, Sequence[Record]]


class Intake:
    """One model's membership of its consumer group. One event loop touches it; one task calls `poll`.

    Each assignment of a partition has a ledger of its own. What was read at its beginning is committed again, marked as
    open, before the first record is given out. When partitions go, `settle` is awaited (it finishes what was started),
    then what is finished is committed, and only then are the ledgers fenced. When they are lost, `lost` is called and
    nothing of them is committed.
    """

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        model: str,
        options: GroupOptions,
        *,
        settle: Settle,
        lost: Lost,
        changed: Callable[[], None],
        committed: Told = lambda offsets, asked_ms: None,
        watch: ProgressWatch | None = None,
        kafka_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self._lanes = topics.lanes(model) | {topics.retry(model): Lane.ASYNC}
        self._model = model
        self._settle = settle
        self._lost = lost
        self._changed = changed
        self.suspect_cap = 0  # how many records of a partition can have been in flight
        self._watch = watch
        self._kafka_away = kafka_away
        self._broker = broker
        self._group = topics.group(model)
        self._options = options
        self._consumer = self._new_member()
        self._joined_at: float | None = None  # None while there is no started consumer
        self._pause_s = 0.0
        self._lost_at: float | None = None  # until the next assignment, without which its records would go unread
        self._unopened = False  # ledgers are not committed as open yet
        self._withheld: list[tuple[PartitionLedger, Sequence[Record]]] = []  # polled, given out once that is done
        self._read = 0
        self.stuck = False  # another consumer did not help
        self.reading = Reading(topics.retry(model), self._lanes)
        self.ledgers: dict[TopicPartition, PartitionLedger] = {}
        self.committing = Committing(model, self.ledgers, lambda: self._consumer, self._give_up, committed)
        self.assignments = 0  # how often the group has given out partitions

    def _new_member(self) -> Consumer:
        return self._broker.member(self._group, frozenset(self._lanes), self, self._options)

    async def start(self) -> None:
        await self._consumer.start()
        self._joined_at = time.monotonic()

    async def poll(self, max_records: int, timeout_s: float) -> Haul:
        """What has arrived. A consumer that cannot go on is replaced, its partitions given up uncommitted.

        Raises:
            Misconfigured: another would not fare better.
        """
        try:
            self._check_progress()
            if self._unopened and not await self._open():
                await asyncio.sleep(FIRST_PAUSE_S)
                return {}
            if self._withheld:
                held, self._withheld = self._withheld, []
                return {ledger.partition: haul for ledger, haul in held if ledger.is_ours}
            self.choose()
            return self._noted(await self._consumer.poll(max_records, timeout_s))
        except Misconfigured:
            raise
        except BrokerError as err:
            _log.error("Model %s joins its group anew: %s", self._model, err, extra={"action": "rejoin"})
            await self._join_anew()
            return {}

    def choose(self) -> None:
        """Pause and resume as `reading` says now; a poll under way heeds it."""
        self.reading.apply(self._consumer, self.ledgers.values())

    def _noted(self, records: Haul) -> Haul:
        self._read += sum(map(len, records.values()))
        if not records:
            for partition, position in self._consumer.positions().items():
                # Of one that is being given up, records may have been polled and left to its next owner.
                if (ledger := self.ledgers.get(partition)) is not None and ledger.is_ours:
                    ledger.reached(position)
        for partition, haul in records.items():
            ledger = self.ledgers.get(partition)
            if ledger is not None and ledger.is_reread(haul[0].offset):
                self._begin_again(ledger, haul[0].offset)
        if self._unopened:  # assigned during this poll
            self._withheld = [(self.ledgers[p], haul) for p, haul in records.items() if p in self.ledgers]
            return {}
        return records

    def _check_progress(self) -> None:
        """Raises BrokerError: nothing is read or committed although there is something."""
        if self._lost_at is not None and time.monotonic() - self._lost_at > self._options.rebalance_timeout_s:
            raise BrokerError("its partitions were lost and the group has not given it others since")
        if self._watch is None:
            return
        if self._kafka_away() or not self.ledgers:
            self._watch.pardon()
            return
        paused = self.reading.paused
        can_read = any(lag and partition not in paused for partition, lag in self._consumer.lag().items())
        verdict = self._watch.look(Sight(can_read, self.is_due, self._read, self.committing.commits), time.monotonic())
        self.stuck = verdict is Verdict.DEAD
        if verdict is Verdict.REBUILD:
            raise BrokerError("it reads nothing although records wait, or commits nothing although work finishes")

    def _begin_again(self, ledger: PartitionLedger, offset: int) -> None:
        """The log was cut, or the topic made anew: offsets mean other records now, so nothing kept of them holds."""
        partition = ledger.partition
        _log.warning("%s:%d goes on at offset %d, below what was read: its log was cut or made anew",
                     *partition, offset, extra={"action": "reread"})  # fmt: skip
        self._fence([ledger])
        self._lost([ledger])
        self.ledgers[partition] = PartitionLedger(partition, Committed(offset))

    async def _open(self) -> bool:
        """Commit what was read at the assignment, marked open, before any of it is worked on; whether that worked.

        A worker that dies before its first commit is known to have begun; lag scalers see the group at once.
        """
        suspected = [ledger for ledger in self.ledgers.values() if ledger.expects_suspects]
        await asyncio.gather(*map(self._bound_suspects, suspected))
        assignment = self.assignments
        if not await self.committing.commit() or assignment != self.assignments:
            return False
        self._unopened = False
        return True

    async def _bound_suspects(self, ledger: PartitionLedger) -> None:
        """Records that came after the last worker's end cannot have been its end."""
        try:
            (end,) = (await self._consumer.end_offsets(frozenset([ledger.partition]))).values()
        except BrokerError as err:  # it has no leader, say: what of it arrives later is suspected too
            _log.warning("The end of %s:%d is not known: %s", *ledger.partition, err,
                         extra={"action": "end_offsets_failed"})  # fmt: skip
        else:
            ledger.bound_suspects(end)

    async def _join_anew(self) -> None:
        self._give_up()
        if self._joined_at is None or time.monotonic() - self._joined_at > CALM_S:
            self._pause_s = 0.0
        self._joined_at = None
        while self._joined_at is None:
            await self._consumer.stop(STOP_TIMEOUT_S)
            self._give_up()  # what it was assigned while it stopped
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * self._pause_s))
            self._consumer = self._new_member()
            try:
                await self.start()
            except BrokerError as err:
                _log.warning("Model %s cannot join its group yet: %s", self._model, err,
                             extra={"action": "join_failed"})  # fmt: skip

    def _give_up(self) -> None:
        ledgers = list(self.ledgers.values())
        self._lost_at = time.monotonic()
        self._fence(ledgers)
        self._lost(ledgers)

    @property
    def is_due(self) -> bool:
        """Whether something has happened that is not committed."""
        return any(ledger.is_due for ledger in self.ledgers.values())

    def lane(self, topic: str) -> Lane:
        return self._lanes[topic]

    def lag(self) -> int | None:
        """Records that wait in the assigned partitions; None while none is known. Any thread may ask."""
        return sum(self._consumer.lag().values()) if self.ledgers and self._joined_at is not None else None

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None:
        for partition, start in starts.items():
            self.ledgers[partition] = PartitionLedger(partition, start, self.suspect_cap)
        self.reading.began()
        self.assignments += 1
        self._lost_at = None
        self._unopened = True
        self._changed()
        _log.info("Model %s has %d partitions", self._model, len(self.ledgers), extra={"action": "assigned"})

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        leaving = [self.ledgers[partition] for partition in partitions if partition in self.ledgers]
        for ledger in leaving:
            ledger.leaving = True
        await self._settle(leaving)
        for ledger in leaving:
            ledger.take_back_all()
        await self.committing.close(partitions)
        self._fence(leaving)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Leave the group; nothing can be committed afterwards."""
        self._joined_at = None
        await self._consumer.stop(timeout_s)
        self._fence(list(self.ledgers.values()))

    def _fence(self, ledgers: Iterable[PartitionLedger]) -> None:
        for ledger in ledgers:
            ledger.fence()
            if self.ledgers.get(ledger.partition) is ledger:
                del self.ledgers[ledger.partition]
