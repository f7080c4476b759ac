"""Correlate replies with the requests that wait for them: one reply partition, one reader, one timer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence

from msgspec import Struct

from ._follow import Follower
from ._pending import Outcome, Pending, Waiter
from .broker import Admin, Broker, BrokerError, Headers, Record, TopicPartition
from .cancels import Cancel
from .errors import Cancelled, EndedError, HeadraceError, Internal, InvalidRequest
from .records import decode_reply_record
from .rights import Operation, Resource, Right
from .stored_replies import StoredReplies
from .system_topics import ensure_system_topics
from .topics import ReplyTo, Topics
from .wire import Reply

# A worker notices a passed deadline too and says more about it, so its answer gets this long to arrive.
DEADLINE_GRACE_S = 0.25
SWEEP_INTERVAL_S = 0.05
log = logging.getLogger(__name__)


class Counters(Struct, frozen=True):
    """What a client has seen of replies since it was made.

    Attributes:
        pending: requests that wait for a reply now.
        answered: replies given to who waited for them.
        expired: requests ended here because no reply came in time.
        late: replies to requests that had ended without one.
        duplicate: further replies to requests that had one already.
        foreign: replies to requests of other clients that share the partition.
        unreadable: records that are no reply.
    """

    pending: int = 0
    answered: int = 0
    expired: int = 0
    late: int = 0
    duplicate: int = 0
    foreign: int = 0
    unreadable: int = 0


class Replies:
    """The reply side of one client. Belongs to its event loop."""

    def __init__(
        self, broker: Broker, topics: Topics, partition: int | None, max_pending: int, stored: StoredReplies
    ) -> None:
        self._stored = stored
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._broker = broker
        self._topics = topics
        self._wanted_partition = partition
        self._pending = Pending(max_pending)
        self._follower: Follower | None = None
        self._starting = asyncio.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # kept: asking for it is a call of the system
        self._timer: asyncio.TimerHandle | None = None
        self._answered = self._expired = 0
        self._late = self._duplicate = self._foreign = self._unreadable = 0
        self.address: ReplyTo | None = None

    @property
    def counters(self) -> Counters:
        return Counters(
            len(self._pending),
            self._answered,
            self._expired,
            self._late,
            self._duplicate,
            self._foreign,
            self._unreadable,
        )

    @property
    def failed(self) -> BrokerError | None:
        """Why nothing is read at the moment; None while all is well, and before `start`."""
        return None if self._follower is None else self._follower.failed

    async def start(self, admin: Admin) -> ReplyTo:
        """Fix the position in the reply partition, once; the return address.

        Raises:
            NotAllowed: a right is missing.
            BrokerError: the broker did not answer, or a topic could not be created.
            InvalidRequest: the wanted partition does not exist.
        """
        async with self._starting:
            if self.address is None:
                partition = await self._choose_partition(admin)
                follower = Follower(self._broker, partition, self._handle, from_end=True)
                await follower.start()
                if self._closed:
                    await follower.stop()
                    raise Cancelled("the client is closed")
                self._follower = follower
                self.address = ReplyTo(*partition)
            return self.address

    def check(self, id: str) -> None:
        """Raises as `Pending.check` does."""
        self._pending.check(id)

    def expect(
        self, id: str, deadline_s: float, waiter: Waiter, published_ms: int, *, takes_tensors: bool = False
    ) -> None:
        """Wait for the reply to a request; raises as `Pending.expect` does."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        due_s = loop.time() + deadline_s + DEADLINE_GRACE_S
        self._pending.expect(id, due_s, waiter, published_ms, takes_tensors=takes_tensors)
        if self._timer is None or due_s < self._timer.when() - SWEEP_INTERVAL_S:
            self._sweep_at(loop, due_s)

    def settle(self, id: str, outcome: Outcome) -> None:
        """End a request without a reply."""
        self._pending.settle(id, outcome)

    def forget(self, id: str) -> int | None:
        """Wait no longer. When the request was published; None where it did not wait."""
        if id in self._fetching:
            self._fetching[id].cancel()
        return self._pending.forget(id)

    def waiting(self) -> list[Cancel]:
        """What would cancel the requests that wait."""
        return [Cancel(id, at_ms) for id, at_ms in self._pending.published()]

    async def close(self) -> None:
        """End what waits with Cancelled, then stop reading."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for id in list(self._pending):
            self._pending.settle(id, Cancelled("the client was closed before the reply came", id=id))
        if self._follower is not None:
            await self._follower.stop()
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)

    async def _choose_partition(self, admin: Admin) -> TopicPartition:
        name = self._topics.replies
        # Asked for itself: a reader without the right would fail later, and less clearly.
        if (refused := await admin.missing([Right(Operation.READ, Resource.TOPIC, name)])) is not None:
            raise refused
        await ensure_system_topics(admin, self._topics)
        partitions = (await admin.topics()).get(name, 0)
        chosen = random.randrange(partitions or 1) if self._wanted_partition is None else self._wanted_partition
        if not 0 <= chosen < partitions:
            raise InvalidRequest(f"reply partition {chosen} does not exist: {name} has {partitions} partitions")
        return TopicPartition(name, chosen)

    def _sweep_at(self, loop: asyncio.AbstractEventLoop, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when_s, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        before = len(self._pending)
        next_due_s = self._pending.sweep(loop.time())
        self._expired += before - len(self._pending)
        self._timer = None
        if next_due_s is not None:
            self._sweep_at(loop, max(next_due_s, loop.time() + SWEEP_INTERVAL_S))

    def _handle(self, records: Sequence[Record]) -> None:
        for record in records:
            key, value = record.key, record.value
            id = None if key is None else key.decode("ascii", "replace")
            if id is not None and id not in self._pending:
                self._count_unexpected(id)
            elif value is None:
                self._unreadable += 1
            else:
                self._read(id, value, record.headers)

    def _read(self, id: str | None, value: bytes, headers: Headers) -> None:
        try:
            outcome = decode_reply_record(value, headers, as_tensors=self._pending.takes_tensors(id))
        except HeadraceError as err:
            self._unreadable += 1
            outcome = err
        outcome_id = outcome.id or id
        if outcome_id is None:
            return
        if isinstance(outcome, HeadraceError):
            outcome.id = outcome_id
            if isinstance(outcome, EndedError) and self._is_for_earlier(outcome_id):
                return
        elif outcome.ref is not None and outcome_id in self._pending:
            self._fetch(outcome_id, outcome)
            return
        self._answer(outcome_id, outcome)

    def _answer(self, id: str, outcome: Outcome) -> None:
        if self._pending.settle(id, outcome, answered=True):
            self._answered += 1
        else:
            self._count_unexpected(id)

    def _fetch(self, id: str, pointer: Reply) -> None:
        """Fetch a reply that is stored; the request waits on, until its deadline."""
        if id in self._fetching:
            self._duplicate += 1
            return
        task = asyncio.create_task(self._fetch_and_answer(id, pointer), name="headrace-fetch-reply")
        self._fetching[id] = task
        task.add_done_callback(lambda _: self._fetching.pop(id))

    async def _fetch_and_answer(self, id: str, pointer: Reply) -> None:
        due_s = self._pending.due_s(id)
        if due_s is None:
            return
        try:
            outcome: Outcome = await self._stored.fetch(pointer, due_s - asyncio.get_running_loop().time())
        except HeadraceError as err:
            outcome = err
        except Exception as err:  # the top of a task: a fault here must not leave the caller waiting
            log.exception("A stored reply could not be read", extra={"action": "reply_unread", "id": id})
            outcome = Internal(f"the stored reply could not be read: {type(err).__name__}: {err}", id=id)
        self._answer(id, outcome)

    def _is_for_earlier(self, id: str) -> bool:
        """Whether an end is taken for that of a request given up before the one of the same id that now waits."""
        if self._pending.was_answered(id) is not False:
            return False
        self._count_unexpected(id)
        return True

    def _count_unexpected(self, id: str) -> None:
        answered = self._pending.note_reply(id)
        if answered is None:
            self._foreign += 1
        elif answered:
            self._duplicate += 1
        else:
            self._late += 1
