"""Records of request, retry, reply, dead and events topics, read as facts of a history. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from headrace.verify_facts import OK, Accepted, Buried, CommitMade, Finished, Moved, Started
from producer_sdk.broker import Committed, Headers, Record, TopicPartition
from producer_sdk.dead_letters import REDRIVEN_HEADER, read_facts
from producer_sdk.errors import Code, HeadraceError
from producer_sdk.event_records import Event
from producer_sdk.records import JSON_STARTS, decode_codec_reply, decode_record
from producer_sdk.topics import ReplyTo, Topics, derived_id
from producer_sdk.wire import WIRE_VERSION, Undecodable
from workers.offset_map import decode, place_of
from workers.retry_records import Origin, origin_of

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NULL = Raw(b"null")
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError, Undecodable)


class Answer(NamedTuple):
    """What a reply says: whose it is, OK or an error's code, and the model that answered where it says so."""

    id: str
    code: str
    model: str | None


class _Envelope(Struct, array_like=True, frozen=True, gc=False):
    """The elements of a MessagePack reply that come before its content, which nobody needs here."""

    wire: int
    id: str
    model: str
    version: str
    code: str | None


class _Body(Struct, frozen=True, gc=False):
    id: str | None = None
    model_name: str | None = None
    code: str | None = None
    error: Raw = _NULL
    outputs: Raw = _NULL


_envelopes = msgspec.msgpack.Decoder(_Envelope)
_bodies = msgspec.json.Decoder(_Body)


def read_answer(value: bytes | None, key: bytes | None, headers: Headers = ()) -> Answer | None:
    """The head of a reply; None for a record that is none."""
    try:
        if not value:
            return None
        reply = decode_codec_reply(value, headers) if headers else None
        if reply is not None:
            id = reply.id or (key or b"").decode()
            return Answer(id, reply.code, None) if isinstance(reply, HeadraceError) else Answer(id, OK, reply.model)
        if value[0] not in JSON_STARTS:
            envelope = _envelopes.decode(value)
            known = envelope.wire == WIRE_VERSION
            return Answer(envelope.id, envelope.code or OK, envelope.model) if known else None
        body = _bodies.decode(value.removeprefix(_BYTE_ORDER_MARK))
        id = body.id or (key or b"").decode()
    except _UNREADABLE:
        return None
    if body.error == _NULL and body.outputs == _NULL:
        return None
    return Answer(id, OK if body.error == _NULL else body.code or Code.INTERNAL, body.model_name)


def finished_by(partition: TopicPartition, committed: Committed) -> Finished:
    """What a commit says is finished."""
    remembered = decode(committed.offset, committed.metadata, place_of(partition))
    return Finished(committed.offset, remembered.highest, frozenset(remembered.incomplete))


class Partitions:
    """One object for each partition, however many facts name it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], TopicPartition] = {}

    def of(self, topic: str, number: int) -> TopicPartition:
        return self._known.setdefault((topic, number), TopicPartition(topic, number))


class RequestReader:
    """Reads the requests of one model.

    `counts` holds the partitions of each topic; `named` collects the reply topics that requests name.
    """

    def __init__(self, topics: Topics, model: str, counts: Mapping[str, int], partitions: Partitions) -> None:
        self._topics = topics
        self._results = topics.results(model)
        self._dead = topics.dead(model)
        self._counts = counts
        self._partition = partitions.of
        self.named: set[str] = set()

    def read(self, record: Record) -> Accepted | Moved:
        """A record of a request topic, or of the retry topic."""
        origin = origin_of(record)
        place = self._partition(record.topic, record.partition)
        id, answer_at, readable = self._address(record, origin)
        is_moved = (origin.topic, origin.partition, origin.offset) != (record.topic, record.partition, record.offset)
        if is_moved:
            first = self._partition(origin.topic, origin.partition)
            return Moved(id, place, record.offset, record.timestamp, answer_at, first, origin.offset)
        redriven = any(name == REDRIVEN_HEADER for name, _ in record.headers)
        return Accepted(id, place, record.offset, record.timestamp, answer_at, readable, redriven)

    def _address(self, record: Record, origin: Origin) -> tuple[str, TopicPartition, bool]:
        """Id, place of the outcome, and whether it is a reply; as the workers read them."""
        fallback_id = derived_id(origin.topic, origin.partition, origin.offset)
        try:
            request = decode_record(record.value, origin.headers, fallback_id, origin.timestamp_ms)
        except Undecodable:
            return fallback_id, self._chosen(self._dead, record.partition), False
        return request.id, self._answer_at(request.reply_to, record.partition), True

    def _answer_at(self, reply_to: ReplyTo | None, source: int) -> TopicPartition:
        """Where workers send the reply: what cannot go to its return address goes to the results topic."""
        if reply_to is not None and self._topics.may_reply_to(reply_to.topic):
            self.named.add(reply_to.topic)
            count = self._counts.get(reply_to.topic, 0)
            if count and reply_to.partition is None:
                return self._chosen(reply_to.topic, source)
            if reply_to.partition is not None and reply_to.partition < count:
                return self._partition(reply_to.topic, reply_to.partition)
        return self._chosen(self._results, source)

    def _chosen(self, topic: str, source: int) -> TopicPartition:
        """The partition that a worker chooses: see docs/decisions."""
        return self._partition(topic, source % max(1, self._counts.get(topic, 0)))


def buried_by(record: Record) -> Buried | None:
    """The dead letter of a record; None for another that lies among them."""
    facts = read_facts(record.headers)
    if facts is None:
        return None
    place = TopicPartition(record.topic, record.partition)
    origin = TopicPartition(facts.topic, facts.partition)
    return Buried(facts.code, place, record.offset, record.timestamp, origin, facts.offset)


class EventReader:
    """Sorts the events of workers: those of one model's topics, each once."""

    def __init__(self, request_topics: frozenset[str], partitions: Partitions) -> None:
        self._topics = request_topics
        self._partition = partitions.of
        self._last: dict[tuple[str, str], int] = {}
        self.started: list[Started] = []
        self.commits: list[CommitMade] = []
        self.silent: set[str] = set()

    def read(self, event: Event) -> None:
        """Take the next event of the topic."""
        worker, life = event.worker, (event.worker, event.life)
        last = self._last.get(life)
        if last is not None and event.number <= last:  # sent again, as its acknowledgement was lost
            return
        if last is not None and event.number > last + 1:
            self.silent.add(worker)
        self._last[life] = event.number
        for each in event.started:
            if each.topic in self._topics:
                where = self._partition(each.topic, each.partition)
                told = (each.attempts, each.alone, each.deadline_ms)
                self.started.append(Started(each.id, worker, where, each.offset, event.at_ms, *told))
        for made in event.committed:
            if made.topic in self._topics:
                where = self._partition(made.topic, made.partition)
                finished = finished_by(where, Committed(made.offset, made.metadata))
                self.commits.append(CommitMade(worker, where, finished, event.at_ms))
