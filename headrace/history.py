"""One model's history read from topics and group offsets alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from headrace.broker_admin import admin_of
from headrace.known_model import check_has_topics
from headrace.verify_facts import Accepted, Buried, Finished, History, Moved, Told
from headrace.verify_read import read_partitions
from headrace.verify_records import EventReader, Partitions, RequestReader, buried_by, finished_by, read_answer
from producer_sdk.broker import Admin, Bounds, Broker, Committed, Record, TopicPartition
from producer_sdk.event_records import decode_event
from producer_sdk.topics import Topics, check_model_name

# Where a partition is empty, nothing says how old the deleted replies were; headrace lets none be deleted sooner.
SHORTEST_KEPT_MS = 3600 * 1000

Places = Mapping[TopicPartition, Bounds]


class Progress:
    """How far a history is read; `tell` is called as often as something is."""

    def __init__(self, tell: Callable[[Progress], None] = lambda progress: None) -> None:
        self.records = 0
        self.of_records = 0
        self._tell = tell

    def expect(self, places: Places) -> None:
        self.of_records += sum(each.end - each.first for each in places.values())

    def count(self) -> None:
        self.records += 1
        self._tell(self)


async def read_history(
    broker: Broker,
    topics: Topics,
    model: str,
    *,
    progress: Progress | None = None,
    now: Callable[[], float] = time.time,
) -> History:
    """What the topics say of a model's requests, as of now. It may go on serving meanwhile.

    1. what the group has committed; 2. where the request topics end; 3. the requests up to there; 4. where the reply
    topics end; 5. the outcomes up to there. The order is the proof: what a commit covers had its outcome published
    before, so that each outcome that must be there is below the ends taken afterwards. Any other order would find
    requests of a busy model lost that are not.

    Holds some 600 bytes a request, whatever its size.

    Raises:
        InvalidRequest: the model's name is none.
        UnknownModel: it has no request topic.
        BrokerError: the broker does not answer, or does not give its records.
    """
    check_model_name(model)
    async with admin_of(broker) as admin:
        return await _Reading(broker, admin, topics, model, progress or Progress(), now).read()


class _Oldest(NamedTuple):
    """The oldest record that was read of a partition."""

    offset: int
    at_ms: int


class _Reading:
    """One reading; the facts are collected here."""

    def __init__(
        self, broker: Broker, admin: Admin, topics: Topics, model: str, progress: Progress, now: Callable[[], float]
    ) -> None:
        self._broker = broker
        self._admin = admin
        self._topics = topics
        self._model = model
        self._progress = progress
        self._now = now
        self._requests = frozenset((*topics.lanes(model), topics.retry(model)))
        self._partitions = Partitions()
        self._events = EventReader(self._requests, self._partitions)
        self._accepted: list[Accepted] = []
        self._moved: list[Moved] = []
        self._told: list[Told] = []
        self._buried: list[Buried] = []
        self._ids: dict[str, str] = {}  # so that an id is kept once, not once more for each reply
        self._oldest: dict[TopicPartition, _Oldest] = {}
        self._notes: list[str] = []

    async def read(self) -> History:
        committed = await self._admin.committed(self._topics.group(self._model))  # 1
        counts = await self._admin.topics()
        check_has_topics(self._model, self._topics, counts)
        requests = await self._bounds(counts, self._requests)  # 2
        reader = RequestReader(self._topics, self._model, counts, self._partitions)
        await self._read(requests, lambda record: self._take_request(reader.read(record)))  # 3
        counts = await self._admin.topics()
        own = (self._topics.replies, self._topics.results(self._model), self._topics.dead(self._model))
        outcomes = await self._bounds(counts, {*own, *reader.named, self._topics.events})  # 4
        await self._read(outcomes, self._take_outcome)  # 5
        return History(
            accepted=self._accepted,
            moved=self._moved,
            told=self._told,
            buried=self._buried,
            finished=self._finished(committed, requests),
            gone_before_ms=self._gone_before_ms(outcomes),
            started=self._events.started,
            commits=self._events.commits,
            silent=frozenset(self._events.silent),
            notes=(*self._notes, *_silent_notes(self._events.silent)),
        )

    async def _bounds(self, counts: Mapping[str, int], names: Iterable[str]) -> Places:
        wanted = [TopicPartition(name, number) for name in names for number in range(counts.get(name, 0))]
        return await self._admin.bounds(wanted) if wanted else {}

    async def _read(self, places: Places, take: Callable[[Record], None]) -> None:
        self._progress.expect(places)

        def taken(record: Record) -> None:
            take(record)
            self._progress.count()

        await read_partitions(self._broker, places, taken)

    def _take_request(self, request: Accepted | Moved) -> None:
        self._ids.setdefault(request.id, request.id)
        if isinstance(request, Moved):
            self._moved.append(request)
        else:
            self._accepted.append(request)

    def _take_outcome(self, record: Record) -> None:
        partition = self._partitions.of(record.topic, record.partition)
        self._oldest.setdefault(partition, _Oldest(record.offset, record.timestamp))
        if record.topic == self._topics.events:
            event = decode_event(record.value)
            if event is not None:
                self._events.read(event)
        elif record.topic == self._topics.dead(self._model):
            letter = buried_by(record)
            self._buried += [] if letter is None else [letter]
        else:
            self._take_reply(record, partition)

    def _take_reply(self, record: Record, partition: TopicPartition) -> None:
        answer = read_answer(record.value, record.key, record.headers)
        id = self._ids.get(answer.id) if answer is not None else None
        # Of other models, or of requests that are deleted already.
        if answer is None or id is None or answer.model not in (None, self._model):
            return
        self._told.append(Told(id, sys.intern(answer.code), partition, record.offset, record.timestamp))

    def _finished(
        self, committed: Mapping[TopicPartition, Committed], requests: Places
    ) -> Mapping[TopicPartition, Finished]:
        finished = {}
        for partition, (first, end) in sorted(requests.items()):
            name, commit = f"{partition.topic}:{partition.partition}", committed.get(partition)
            if commit is None:
                continue
            if commit.offset > end:
                self._notes.append(
                    f"the group has committed offset {commit.offset} of {name}, which ends at {end}: it was made anew "
                    "or cut, so that the commit says nothing of the records that it holds now"
                )
                continue
            if commit.offset < first:
                self._notes.append(
                    f"the records {commit.offset} to {first - 1} of {name} were deleted before they were finished: "
                    "nobody can say whether they were answered; keep requests longer than the longest outage"
                )
            finished[partition] = finished_by(partition, commit)
        return finished

    def _gone_before_ms(self, outcomes: Places) -> Mapping[TopicPartition, int]:
        """Of the partitions whose oldest outcomes are deleted: the time of the oldest one that is left."""
        gone = {}
        for partition, (first, _) in outcomes.items():
            oldest = self._oldest.get(partition)
            if first > 0 or (oldest is not None and oldest.offset > first):
                gone[partition] = int(self._now() * 1000) - SHORTEST_KEPT_MS if oldest is None else oldest.at_ms
        return gone


def _silent_notes(silent: Iterable[str]) -> Iterable[str]:
    for worker in sorted(silent):
        yield f"some events of worker {worker} were not kept: what they would show is not judged"
