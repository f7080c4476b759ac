"""Reads a model's dead topic: its letters, and the notes which of them were re-driven."""

import bisect
import heapq
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property

from headrace.broker_admin import admin_of
from headrace.known_model import check_has_topics
from headrace.topic_reader import TopicReader, bounds_of, open_reader
from producer_sdk.broker import Broker, Record, TopicPartition
from producer_sdk.dead_letters import original_headers, read_facts, read_note
from producer_sdk.errors import InvalidRequest
from producer_sdk.records import decode_record
from producer_sdk.topics import Topics, check_model_name, derived_id
from producer_sdk.wire import Refused, Request, Undecodable

POLL_S = 0.5
MAX_POLL_RECORDS = 100
FIRST_WINDOW, WIDER = 100, 8  # letters looked at from the end; how much wider where too few of them are wanted


class Letter:
    """A record of the dead topic; decoded on use."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.facts = read_facts(record.headers)

    @property
    def place(self) -> str:
        return f"{self.record.partition}:{self.record.offset}"

    @property
    def id(self) -> str:
        """Of the request; where it has none or cannot be read, the one derived from where it was published first."""
        return self.request.id or self.fallback_id

    @property
    def fallback_id(self) -> str:
        whence = self.facts or self.record
        return derived_id(whence.topic, whence.partition, whence.offset)

    @cached_property
    def request(self) -> Request | Refused | Undecodable:
        """What it asked for, read as when it was published first."""
        published_ms = self.facts.timestamp_ms if self.facts else -1
        return self.read(published_ms if published_ms >= 0 else self.record.timestamp)

    def read(self, timestamp_ms: int) -> Request | Refused | Undecodable:
        """What it asks for if it is published at that time."""
        headers = original_headers(self.record.headers)
        try:
            return decode_record(self.record.value, headers, self.fallback_id, timestamp_ms)
        except Undecodable as err:
            return err


class Redriven:
    """Which letters of one partition were re-driven, as the notes among them say: offsets in ranges, kept merged."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """The offsets from `start` up to `end`, which is not included."""
        first = bisect.bisect_left(self._ends, start)
        last = bisect.bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def __contains__(self, offset: int) -> bool:
        place = bisect.bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]


class DeadTopic:
    """What `open_letters` gives: the topic as it was then. Belongs to one task."""

    def __init__(self, topic: str, letters: TopicReader) -> None:
        self.topic = topic
        self._letters = letters
        self._begins, self._ends = letters.begins, letters.ends
        self._redriven: defaultdict[int, Redriven] = defaultdict(Redriven)

    def was_redriven(self, letter: Letter) -> bool:
        """As far as the notes that were read say; they lie behind their letters."""
        return letter.record.offset in self._redriven[letter.record.partition]

    async def letters(self, starts: Mapping[TopicPartition, int] | None = None) -> AsyncGenerator[Letter, None]:
        """Letters in order of partition and offset, from these offsets, else all; notes on the way are remembered."""
        positions = {**self._begins, **(starts or {})}
        for partition, end in self._ends.items():
            self._letters.reader.seek(partition, min(end, max(self._begins[partition], positions[partition])))
        while self._letters.is_behind:
            polled = await self._letters.reader.poll(MAX_POLL_RECORDS, POLL_S)
            for partition in sorted(polled):
                for record in polled[partition]:
                    if record.offset < self._ends[partition] and not self._note(record):
                        yield Letter(record)

    async def read_notes(self) -> None:
        """Learn of every letter whether it was re-driven."""
        async for _ in self.letters():
            pass

    async def newest(self, limit: int, wanted: Callable[[Letter], bool]) -> list[Letter]:
        """The last `limit` letters that are wanted, newest last. Reads no more of the topic than that takes."""
        window = max(limit, FIRST_WINDOW)
        while True:
            starts = {partition: max(self._begins[partition], end - window) for partition, end in self._ends.items()}
            found: list[Letter] = []
            counts: Counter[int] = Counter()
            async for letter in self.letters(starts):
                if wanted(letter):
                    counts[letter.record.partition] += 1
                    found.append(letter)
                    if len(found) >= 2 * limit + FIRST_WINDOW:
                        found = heapq.nlargest(limit, found, key=_age)
            short = [each for each in starts if starts[each] > self._begins[each] and counts[each.partition] < limit]
            if not short:
                return heapq.nlargest(limit, found, key=_age)[::-1]
            window *= WIDER

    async def at(self, partition: int, offset: int) -> Letter | None:
        """The letter at a place; None where there is none. Notes behind it are read too."""
        place = TopicPartition(self.topic, partition)
        if not self._begins.get(place, 0) <= offset < self._ends.get(place, 0):
            return None
        found = None
        async for letter in self.letters({**self._ends, place: offset}):
            found = letter if letter.record.offset == offset else found
        return found

    def _note(self, record: Record) -> bool:
        ranges = read_note(record.headers)
        for each in ranges or ():
            # A note speaks of what lies before it: whatever else it says is no word of ours.
            if (end := min(each.stop, record.offset)) > each.start:
                self._redriven[record.partition].add(each.start, end)
        return ranges is not None


@asynccontextmanager
async def open_letters(broker: Broker, topics: Topics, model: str) -> AsyncIterator[DeadTopic]:
    """A model's dead topic as it is now, read for the length of a block.

    Raises:
        InvalidRequest: the model's name is none, or it has request topics and no dead topic.
        UnknownModel: it has no topics.
        BrokerError: Kafka does not answer.
    """
    topic = topics.dead(check_model_name(model))
    async with admin_of(broker) as admin:
        counts = await admin.topics()
        bounds = await bounds_of(admin, topic, counts.get(topic, 0))
    if not bounds:
        check_has_topics(model, topics, counts)
        raise InvalidRequest(
            f"there is no topic {topic}, so the model has no dead letters here: see `headrace topics list` for the "
            "topics there are"
        )
    async with open_reader(broker, bounds) as letters:
        yield DeadTopic(topic, letters)


def _age(letter: Letter) -> tuple[int, int, int]:
    return letter.record.timestamp, letter.record.partition, letter.record.offset
