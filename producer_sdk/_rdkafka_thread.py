"""The thread that asks librdkafka for records and tells an event loop what came.

Only this thread touches the consumer: confluent-kafka lets no other in while one polls. It always polls, whatever the
loop does, as librdkafka calls for rebalances from there. Records that the loop does not take are bounded: at `_PARKED`
it asks for one record at a time, now and then, to be called; beyond `_MOST_PARKED` it has librdkafka pause all
partitions, which costs what was fetched ahead. Records of partitions that the loop has paused count, too, unless Kafka
has some of the others: those come out of the same queue, so that they can only be had by reading what lies before them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import TopicPartition as KafkaPartition

from ._rdkafka_faults import RDKAFKA_FAULTS
from ._rdkafka_offsets import NEWEST
from ._rdkafka_records import Haul, sorted_out
from ._waker import Waker
from .broker import TopicPartition

_POLL_S = 0.02  # how long a question of the loop may wait
_FULL_S = 0.1
_ASK_S, _ASK_AGAIN_S = 0.025, 1.0  # where others end, while paused ones fill the room; the second after a failure
_LOOK_S, _LOOK_AGAIN_S = 0.5, 0.05  # at the ends of partitions: without news, and with news
_LEAVE_S = 1.0
_HAUL = 512
_PARKED, _MOST_PARKED = 1024, 1280
_PARKED_BYTES = 16 << 20
_KEPT, _KEPT_BYTES = 2048, 4 << 20  # librdkafka throws away what it has fetched of whom it pauses
T = TypeVar("T")


class ConsumingThread(threading.Thread):
    """Owns a confluent consumer until it has closed it. `give`, `fail` and `ended` are called in this thread.

    It ends by itself when `alone` says that nobody polls any more.

    Attributes of which the loop sets the first four:
        done: records that the loop has taken or refused.
        closed: partitions that the loop does not take from, while it takes from others.
        exempt: records that wait for those.
        paused: partitions that librdkafka should not fetch.
        given: records handed to the loop.
        leaves: whether the group is told at the end; a static member keeps its place.
    """

    def __init__(
        self,
        consumer: Any,
        name: str,
        give: Callable[[Haul], None],
        fail: Callable[[BaseException], None],
        ended: Callable[[], None],
        alone: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._consumer = consumer
        self._give = give
        self._fail = fail
        self._ended = ended
        self._alone = alone
        self._commands: deque[Callable[[], None]] = deque()
        self._looked_at = 0.0
        self._unseen: set[TopicPartition] = set()  # what came of them since may have moved their ends
        self._awake = Waker()
        self._stopping = False
        self._failed = False
        self._bytes_each = 0.0
        self._paused: frozenset[TopicPartition] = frozenset()
        self._read_to: dict[TopicPartition, int] = {}
        self._others_end: dict[TopicPartition, float] = {}
        self._ask_at = 0.0
        self._polled_at = 0.0
        self.done = 0
        self.closed: frozenset[TopicPartition] = frozenset()
        self.exempt = 0
        self.paused: frozenset[TopicPartition] = frozenset()
        self.given = 0
        self.leaves = True

    @property
    def most_kept(self) -> int:
        """How many records of one paused partition may wait while others are read."""
        return min(_KEPT, int(_KEPT_BYTES / max(1.0, self._bytes_each)))

    def took(self, count: int) -> None:
        """There is room for so many more; called by the loop."""
        self.done += count
        parked = self.given - self.done - self.exempt
        if parked <= _PARKED // 2 and parked * self._bytes_each <= _PARKED_BYTES // 2:  # many in one go cost least
            self._awake.set()

    def call(self, command: Callable[[], T]) -> asyncio.Future[T]:
        """Have something done between two polls, unless nobody waits for it any more; called by the loop."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(command())
                except Exception as err:  # noqa: BLE001 - passed on to who asked
                    answer.set_exception(err)

        self._commands.append(run)
        self._awake.set()
        return asyncio.wrap_future(answer)

    def wait(self, future: concurrent.futures.Future[None], limit_s: float) -> None:
        """Wait inside a callback of librdkafka, doing what the loop asks for meanwhile. Raises as `result` does."""
        ends_at = time.monotonic() + limit_s
        future.add_done_callback(lambda _: self._awake.set())
        while not future.done() and time.monotonic() < ends_at:
            self._awake.wait(_FULL_S)
            self._serve()
        future.result(0)

    def end(self) -> None:
        self._stopping = True
        self._awake.set()

    def going(self, partitions: frozenset[TopicPartition]) -> None:
        """They are about to be taken away, or assigned anew; called in this thread.

        librdkafka keeps a pause beyond the assignment: a partition that comes back would never be fetched.
        """
        if resumed := self._paused & partitions:
            self._consumer.resume([KafkaPartition(*partition) for partition in resumed])
        self._paused -= partitions
        for partition in partitions:
            self._read_to.pop(partition, None)

    def read_to(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind what was read of those of which something was; called in this thread."""
        return {partition: self._read_to[partition] for partition in partitions if partition in self._read_to}

    def run(self) -> None:
        try:
            while not self._stopping and not self._alone():
                try:
                    self._turn()
                except RDKAFKA_FAULTS as err:
                    self._failed = True
                    self._fail(err)
        finally:
            self._close()
            self._serve()
            self._ended()

    def _turn(self) -> None:
        self._serve()
        held, exempt = self.given - self.done, self.exempt
        self._pause(self.paused | self._assignment() if self._is_left_alone(held - exempt) else self.paused)
        room = self._room(held)
        if not room and exempt and (beside := self._room(held - exempt)) and self._others_wait():
            room = beside
        if room:
            messages = self._arrived(room)
        elif self._waits_for_room(held - exempt):
            return
        else:
            messages = self._consumer.consume(1, 0)
        self._polled_at = time.monotonic()
        if messages:
            self._hand_over(messages)
        elif self._unseen or self._polled_at - self._looked_at > _LOOK_S:
            self._give(self._highest(Haul(), self._assignment()))

    def _room(self, parked: int) -> int:
        """How many more records may be read beside so many."""
        if self._failed or parked * self._bytes_each >= _PARKED_BYTES:
            return 0
        return max(0, _PARKED - parked)

    def _waits_for_room(self, parked: int) -> bool:
        """Waits a little; whether to look anew then, before librdkafka is given the chance to call."""
        self._awake.clear()
        if self._commands or self._stopping or self.given - self.done - self.exempt < parked:
            return True
        awoken = self._awake.wait(_ASK_S if self.exempt else _FULL_S)
        return awoken or time.monotonic() - self._polled_at < _FULL_S

    def _others_wait(self) -> bool:
        """Whether there are records of partitions that the loop takes from, behind those of whom it does not.

        Reading these for no others would end in pausing them, and what was fetched of them would be fetched again.
        """
        if (now := time.monotonic()) >= self._ask_at:
            self._ask_at = now + (_ASK_S if self._ask() else _ASK_AGAIN_S)
        return any(end > self._read_to.get(partition, -1) for partition, end in self._others_end.items())

    def _ask(self) -> bool:
        """Where those partitions end now; whether Kafka said it. Its answer in a fetch may lie behind a full queue."""
        others = self._assignment() - self.closed - self._paused
        self._others_end = dict.fromkeys(others, math.inf)
        if not others:
            return True
        try:
            asked = [KafkaPartition(*partition, NEWEST) for partition in others]
            for each in self._consumer.offsets_for_times(asked, timeout=_ASK_AGAIN_S):
                if each.error is None:
                    self._others_end[TopicPartition(each.topic, each.partition)] = each.offset
        except RDKAFKA_FAULTS:  # then they are read as if there were some
            return False
        return True

    def _is_left_alone(self, parked: int) -> bool:
        """Whether the loop takes nothing: more waits than may, with what may wait of paused partitions."""
        return parked > _MOST_PARKED and parked > _MOST_PARKED + self.most_kept * len(self._assignment())

    def _serve(self) -> None:
        while self._commands:
            self._commands.popleft()()

    def _arrived(self, room: int) -> list[Any]:
        """Waits for the first only: `consume` would wait until all have come.

        Each call lets go of the interpreter and has to wait until the loop does: so first the one that often suffices.
        """
        most = min(_HAUL, room)
        if messages := self._consumer.consume(most, 0):
            return list(messages)
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(most, 0)]

    def _hand_over(self, messages: list[Any]) -> None:
        haul = sorted_out(messages)
        self.given += haul.count
        if haul.count:
            self._bytes_each = haul.nbytes / haul.count
        self._unseen |= haul.records.keys() | haul.ends.keys()
        begun = not haul.records.keys() <= self._read_to.keys()  # nothing is known of how far that partition reaches
        self._read_to |= {partition: records[-1].offset + 1 for partition, records in haul.records.items()} | haul.ends
        if begun or time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
            self._highest(haul, self._unseen & self._assignment())
        self._give(haul)

    def _highest(self, haul: Haul, partitions: Iterable[TopicPartition]) -> Haul:
        """With the ends of partitions as of the last fetch."""
        self._looked_at = time.monotonic()
        self._unseen = set()
        for partition in partitions:
            _, end = self._consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
            if end >= 0:
                haul.highs[partition] = end
        return haul

    def _assignment(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(each.topic, each.partition) for each in self._consumer.assignment())

    def _pause(self, wanted: frozenset[TopicPartition]) -> None:
        if wanted == self._paused:
            return
        assigned = self._assignment()
        if resumed := (self._paused - wanted) & assigned:
            self._consumer.resume([KafkaPartition(*partition) for partition in resumed])
        # A pause right behind an assignment can lose where that begins: so only when something came of it.
        paused = frozenset([each for each in (wanted & assigned) - self._paused if each in self._read_to])
        if paused:
            self._consumer.pause([KafkaPartition(*partition) for partition in paused])
        self._paused = (self._paused & wanted & assigned) | paused

    def _close(self) -> None:
        """Leave the group and close. By `close` alone librdkafka leaves none in which it has no partition.

        Then the others would wait for it as for one that has died, and Kafka answers none of their commits meanwhile.
        """
        try:
            if self.leaves:
                self._consumer.unsubscribe()
            ends_at = time.monotonic() + _LEAVE_S
            while self.leaves and self._consumer.memberid() and time.monotonic() < ends_at:
                self._consumer.poll(_POLL_S)
            self._consumer.close()
        except RDKAFKA_FAULTS as err:
            self._fail(err)
