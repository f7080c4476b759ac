"""decode -> claims -> backlog: inputs that are stored elsewhere are fetched beside what waits and runs.

A request that is being fetched is in no batch and in no backlog, so that it holds up nobody; a slow or missing object
is an outcome of its own request only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from producer_sdk.byte_gate import ByteGate
from producer_sdk.errors import Cancelled, DeadlineExceeded, HeadraceError, PayloadTooLarge
from producer_sdk.payloads import Payloads
from producer_sdk.topics import Lane

from .backlog import Backlog
from .cancels import Cancels
from .commit import PartitionLedger
from .decode import Decoder
from .log import bug
from .reply import Scribe
from .shared import Shared
from .work import Now, Outcome, Referred, Rejected, Work

if TYPE_CHECKING:
    from .reception import Reception

MAX_REQUESTS = 1024  # of a lane; each holds its offset open, and a task
PAST_DEADLINE_S = 1.0
FETCH_S = 60.0  # longest time for one object, where no deadline ends it sooner: a store that restarts is waited for
KEPT_FOR_OTHERS = 8  # a lane leaves this part of the bytes to each lane above it: what hangs must not take all
RANK = {lane: rank for rank, lane in enumerate(Lane)}


class Claims:
    """Fetches the inputs of requests of one model. One event loop touches it.

    `ready` takes requests that can run, `hand_over` outcomes of those that cannot; `moved` is called when there is room
    again. A request waits for its fetch while `is_full` says so of its lane, and while `gate` is full.
    """

    def __init__(
        self,
        model: str,
        payloads: Payloads,
        decoder: Decoder,
        scribe: Scribe,
        gate: ByteGate,
        *,
        is_full: Callable[[Lane], bool],
        goes_on: Callable[[Lane], bool],
        ready: Callable[[list[Work], PartitionLedger, Now], Awaitable[None]],
        hand_over: Callable[[Sequence[Outcome]], None],
        moved: Callable[[], None],
    ) -> None:
        self._model = model
        self._payloads = payloads
        self._decoder = decoder
        self._scribe = scribe
        self._gate = gate
        self._is_full = is_full
        self._goes_on = goes_on
        self._ready = ready
        self._hand_over = hand_over
        self._moved = moved
        self._fetching: dict[asyncio.Task[None], Referred] = {}
        self._of = dict.fromkeys(Lane, 0)
        self._rooms = {lane: asyncio.Event() for lane in Lane}
        self.fetched = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._fetching)

    def room(self, lane: Lane) -> int:
        """Requests of a lane that may still be read, should each have to be fetched."""
        return max(0, MAX_REQUESTS - self._of[lane])

    def half_empty(self, lane: Lane) -> bool:
        """Whether a lane that was closed may be read on."""
        return self._of[lane] <= MAX_REQUESTS // 2

    def add(self, referred: Referred) -> None:
        """Fetch what it refers to, soon."""
        task = asyncio.create_task(self._see_to(referred), name=f"fetch {self._model}")
        self._fetching[task] = referred
        self._of[referred.lane] += 1
        task.add_done_callback(self._ended)

    def note_room(self) -> None:
        """Lanes may have room again; who waits for one is woken once it is half empty, not for every place."""
        for lane, room in self._rooms.items():
            if self._of[lane] and self._goes_on(lane):
                room.set()

    def cancel_waiting(self, cancels: Cancels) -> None:
        """Answer those that have been cancelled."""
        for task, referred in list(self._fetching.items()):
            is_cancelled = cancels.covers(referred.request.id, referred.published_ms)
            if is_cancelled and referred.source.ledger.is_ours and not task.cancelling():
                task.cancel()
                self._hand_over([self._scribe.rejected(self._decoder.unfetched(referred, Cancelled()))])

    def drop(self, ledgers: Iterable[PartitionLedger]) -> None:
        """Forget the requests of partitions that are leaving; their next owner reads them again."""
        leaving = {id(ledger) for ledger in ledgers}
        for task, referred in self._fetching.items():
            if id(referred.source.ledger) in leaving:
                task.cancel()

    async def stop(self) -> None:
        """Fetch nothing any more."""
        tasks = list(self._fetching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._of[self._fetching.pop(task).lane] -= 1
        self._moved()

    async def _see_to(self, referred: Referred) -> None:
        try:
            item = await self._outcome_of(referred)
            if not referred.source.ledger.is_ours:
                return
            if isinstance(item, Work):
                await self._ready([item], referred.source.ledger, _now())
                return
        except Exception as err:  # noqa: BLE001 - the top of a task: a bug of ours must still answer the request
            item = self._decoder.unfetched(referred, bug("fetching stored inputs", self._model, err))
        self.failed += 1
        self._hand_over([self._scribe.rejected(item)])

    async def _outcome_of(self, referred: Referred) -> Work | Rejected:
        """The request with its inputs, or why it has none."""
        try:
            async with asyncio.timeout_at(referred.expires):  # the loop's clock is the monotonic one
                data = await self._fetch(referred)
        except HeadraceError as err:
            return self._decoder.unfetched(referred, err)
        except TimeoutError:
            late = DeadlineExceeded("the deadline passed before the stored inputs were fetched")
            return self._decoder.unfetched(referred, late)
        return self._decoder.fetched(referred, data, _now())

    async def _fetch(self, referred: Referred) -> bytes:
        ref = referred.request.ref
        assert ref is not None, "only requests with a reference come here"
        most = self._gate.most
        rank = RANK[referred.lane]
        nbytes = ref.nbytes if ref.nbytes >= 0 else await self._payloads.size(ref, budget_s=FETCH_S, rank=rank)
        if nbytes > most:
            raise PayloadTooLarge(f"{ref.uri} has {nbytes} bytes; at most {most} are taken here.")
        room, lane = self._rooms[referred.lane], referred.lane
        while True:
            while self._is_full(lane):
                room.clear()
                await room.wait()
            async with self._gate.room_for(nbytes, rank, keep=rank * most // KEPT_FOR_OTHERS):
                if self._is_full(lane):  # filled by those that were let in before
                    continue
                budget_s = fetch_s(referred.expires, time.monotonic())
                data = await self._payloads.get(ref, budget_s=budget_s, max_bytes=most, rank=rank)
            self.fetched += 1
            return data


def fetch_s(expires: float | None, now: float) -> float:
    """The time for one object: until after the deadline, so that a request ends by that and not by a store's fault.

    Event loops round time: without the margin either could come first.
    """
    return FETCH_S if expires is None else min(FETCH_S, max(0.0, expires - now) + PAST_DEADLINE_S)


def claims_for(
    shared: Shared,
    model: str,
    decoder: Decoder,
    scribe: Scribe,
    backlog: Backlog,
    reception: Reception,
    hand_over: Callable[[Sequence[Outcome]], None],
    moved: Callable[[], None],
) -> Claims | None:
    """Those of a model, for its reception; None where the worker has no payload store."""
    if shared.payloads is None:
        return None
    reception.claims = Claims(
        model,
        shared.payloads,
        decoder,
        scribe,
        shared.gate,
        is_full=lambda lane: backlog.room(lane) <= 0,
        goes_on=backlog.half_empty,
        ready=reception.welcome,
        hand_over=hand_over,
        moved=moved,
    )
    return reception.claims


def _now() -> Now:
    return Now(time.monotonic(), int(time.time() * 1000))
