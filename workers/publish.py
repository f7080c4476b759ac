"""Publishing outcomes in rounds: evidence before replies, and only then is an offset finished in its ledger.

What is to be stored is stored before that: then the reply is a pointer to it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from producer_sdk.broker import Producer
from producer_sdk.errors import Code
from producer_sdk.topics import Lane

from .commit import PartitionLedger
from .events import Bell
from .reply import Scribe
from .send import Destinations as Destinations
from .send import Sender
from .work import Outcome

MAX_UNACKNOWLEDGED = 8192
MAX_UNACKNOWLEDGED_BYTES = 64 * 1024 * 1024
MAX_STORING_BYTES = 512 * 1024 * 1024  # beside those: a store that is away must not stop what needs none
LINGER_S = 0.02
LONGEST_LINGER_S = 0.25
PART_OF_AGE = 0.05  # requests that have taken so long anyway may take this part of it longer
ENOUGH = 64  # outcomes that need not wait for more, and waiting requests for whose sake others do
ENOUGH_OF_MANY = 512  # while at least as many requests wait, whom the pause holds up no longer than those before them
ROUND_S = 0.25


class OutcomeIndex(Protocol):
    """What remembers outcomes, so that a redelivered request need not run again (workers/reply_index.py)."""

    async def store(self, outcomes: Sequence[Outcome]) -> None:
        """Remember those before they are published; bounded in time, never raises."""
        ...


class OutcomeStorage(Protocol):
    """What stores outcomes whose caller wants them in S3, or that are too large for a record (workers/storage.py)."""

    async def put(self, outcome: Outcome) -> Outcome:
        """What is to be published of it then; bounded in time, never raises."""
        ...


class Replier:
    """Publishes the outcomes of one model. `put` hands over, `run` publishes; one event loop touches it.

    `published` is called with outcomes as they are acknowledged; `running` tells how many batches run now, `behind` how
    many requests wait for one.

    What arrives while a round of publishing is under way goes out in the next, so that a busy worker sends large
    batches and an idle one sends at once. A partition that does not answer delays a round for `ROUND_S` only.
    """

    def __init__(
        self,
        producer: Producer,
        destinations: Destinations,
        scribe: Scribe,
        published: Callable[[Sequence[Outcome]], None],
        running: Callable[[], int],
        index: OutcomeIndex | None = None,
        behind: Callable[[], int] = lambda: 0,
        storage: OutcomeStorage | None = None,
    ) -> None:
        self._storage = storage
        self._scribe = scribe
        self._published = published
        self._running = running
        self._behind = behind
        self._index = index
        self._replies = Sender(producer, destinations, scribe, self._finish, self._replaced, self._keep, self._put_back)
        # A letter is no evidence to keep of another.
        self._letters = Sender(
            producer, destinations, scribe, lambda _: None, lambda *_: None, self._keep, self._put_back
        )
        self._urgent = self._answers = False
        self._youngest = -math.inf  # when the last of them arrived, monotonic seconds
        self._waiting: list[Outcome] = []
        self._nbytes = 0
        self._storing_nbytes = 0  # of these, what is not stored yet
        self._wake = Bell()
        self.unacknowledged = 0

    def put(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self.unacknowledged += len(outcomes)
            self._nbytes += _bytes_of(outcomes)
            if self._storage is not None:
                self._storing_nbytes += _bytes_of([outcome for outcome in outcomes if outcome.storing is not None])
            self._note(outcomes)

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        """They go out in the next round; how soon that begins is theirs to say, too."""
        self._waiting += outcomes
        # A flood that is refused must not hurry the rest.
        lanes = {outcome.lane for outcome in outcomes if outcome.code != Code.QUOTA_EXCEEDED}
        self._urgent = self._urgent or Lane.INTERACTIVE in lanes
        self._answers = self._answers or bool(lanes)
        self._youngest = max(self._youngest, max([outcome.arrived for outcome in outcomes]))
        self._wake.set()

    @property
    def full(self) -> bool:
        """More is unacknowledged than may be; no further batch or haul should be taken."""
        return (
            self.unacknowledged >= MAX_UNACKNOWLEDGED
            or self._nbytes - self._storing_nbytes >= MAX_UNACKNOWLEDGED_BYTES
            or self._storing_nbytes >= MAX_STORING_BYTES
        )

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as sending:
            while True:
                await self._wake.heard()
                await self._linger()
                outcomes, self._waiting = self._waiting, []
                self._urgent, self._answers, self._youngest = False, False, -math.inf
                evident = [outcome for outcome in outcomes if outcome.evidence is not None]
                publishing = [sending.create_task(self._publish_evident(group)) for group in _by_source(evident)]
                if evident:
                    outcomes = [outcome for outcome in outcomes if outcome.evidence is None]
                if self._storage is not None and (large := [each for each in outcomes if each.storing is not None]):
                    publishing += [sending.create_task(self._publish_stored([outcome])) for outcome in large]
                    outcomes = [outcome for outcome in outcomes if outcome.storing is None]
                await self._remember(outcomes)
                for where, group in (await self._replies.by_partition(outcomes)).items():
                    publishing.append(sending.create_task(self._replies.send(*where, group)))
                if publishing:
                    await asyncio.wait(publishing, timeout=ROUND_S)

    async def _publish_evident(self, outcomes: Sequence[Outcome]) -> None:
        """Their dead letters first, until they are acknowledged: a reply must not promise what is not kept."""
        await self._letters.send_all([self._scribe.letter_of(outcome) for outcome in outcomes])
        plain = [outcome for outcome in outcomes if outcome.storing is None]
        async with asyncio.TaskGroup() as publishing:  # what is slow to be stored holds up none of the others
            for group in (plain, *([outcome] for outcome in outcomes if outcome.storing is not None)):
                if group:
                    publishing.create_task(self._publish_stored(group))

    async def _publish_stored(self, outcomes: Sequence[Outcome]) -> None:
        """First stored, where that is wanted: a pointer must not promise what is not there."""
        pointers = [outcome if outcome.storing is None else await self._stored(outcome) for outcome in outcomes]
        await self._remember(pointers)
        await self._replies.send_all(pointers)

    async def _stored(self, outcome: Outcome) -> Outcome:
        assert self._storage is not None, "who makes such outcomes has a storage"
        pointer = await self._storage.put(outcome)
        self._storing_nbytes -= _bytes_of([outcome])
        self._replaced(outcome, pointer)
        if pointer.evidence is not None and outcome.evidence is None:
            await self._keep(pointer)
        return pointer

    def _put_back(self, outcome: Outcome) -> None:
        """One that goes in the place of another and is to be stored first: it goes the way of all such."""
        self._storing_nbytes += _bytes_of([outcome])
        self._note([outcome])

    async def _keep(self, outcome: Outcome) -> None:
        await self._letters.send_all([self._scribe.letter_of(outcome)])

    async def _remember(self, outcomes: Sequence[Outcome]) -> None:
        if self._index is not None and (known := [outcome for outcome in outcomes if outcome.fingerprint]):
            await self._index.store(known)

    async def _linger(self) -> None:
        """While the next batch runs, and many requests wait, let its outcomes go out with these.

        A request to the broker has a fixed cost on both sides, which under much load is better spent on those that
        wait; under little it is there for the taking.
        """
        self._wake.clear()
        began = time.monotonic()
        while not self._urgent and len(self._waiting) < self._enough() and self._running():
            linger_s = max(LINGER_S, min(LONGEST_LINGER_S, PART_OF_AGE * (began - self._youngest)))
            left_s = began + linger_s - time.monotonic()
            if left_s <= 0:
                return
            await self._wake.heard(left_s)
            self._wake.clear()

    def _enough(self) -> int:
        behind = self._behind()
        return min(ENOUGH_OF_MANY, behind) if behind >= ENOUGH else 1 if self._answers else ENOUGH

    def _finish(self, outcomes: Sequence[Outcome]) -> None:
        for ledger, offsets in by_ledger(outcomes):
            ledger.finish_all(offsets)
        self.unacknowledged -= len(outcomes)
        self._nbytes -= _bytes_of(outcomes)
        self._published(outcomes)

    def _replaced(self, outcome: Outcome, other: Outcome) -> None:
        self._nbytes += _bytes_of([other]) - _bytes_of([outcome])


def _by_source(outcomes: Sequence[Outcome]) -> Sequence[Sequence[Outcome]]:
    """Apart by input partition, as their dead letters go to partitions."""
    groups: defaultdict[object, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.source.ledger.partition].append(outcome)
    return list(groups.values())


def by_ledger(outcomes: Sequence[Outcome]) -> Iterable[tuple[PartitionLedger, list[int]]]:
    """The offsets, of neighbours in one list: records of one partition were taken together."""
    ledger, offsets = outcomes[0].source.ledger, list[int]()
    for outcome in outcomes:
        source = outcome.source
        if source.ledger is not ledger:
            yield ledger, offsets
            ledger, offsets = source.ledger, []
        offsets.append(source.offset)
    yield ledger, offsets


def _bytes_of(outcomes: Sequence[Outcome]) -> int:
    return sum([
        len(outcome.outgoing[1] or b"") + (0 if outcome.evidence is None else len(outcome.evidence.value or b""))
        for outcome in outcomes
    ])  # fmt: skip
