"""Reading on librdkafka beside partitions that are paused: what was fetched is not thrown away for nothing, and what
was paused is read on, whoever got it meanwhile.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from broker_clients import Owner

from producer_sdk._rdkafka_member import RdMember
from producer_sdk._rdkafka_reader import RdReader
from producer_sdk._rdkafka_records import Haul
from producer_sdk._rdkafka_thread import ConsumingThread
from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.kafka import KafkaOptions
from producer_sdk.rdkafka import GroupProtocol, RdKafkaBroker

BUSY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
FULL = 1024


class Place:
    """As confluent-kafka's TopicPartition."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self.topic, self.partition = partition
        self.offset = offset
        self.error = None


class Consumer:
    """Has two partitions and never a message; counts who asks for many."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.hauls = 0

    def assignment(self) -> list[Place]:
        return [Place(BUSY, 0), Place(OTHER, 0)]

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Place]:
        return [Place(TopicPartition(each.topic, each.partition), self.end) for each in asked]

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int]:
        return 0, -1001

    def consume(self, most: int, timeout: float) -> list[Any]:
        self.hauls += most > 1
        return []

    def poll(self, timeout: float) -> None: ...


class Sticky(Consumer):
    """Keeps the mark of a pause beyond an assignment, as librdkafka does; `calls` are told in order."""

    def __init__(self) -> None:
        super().__init__(0)
        self.marked: set[TopicPartition] = set()
        self.calls: list[str] = []

    def pause(self, places: Sequence[Any]) -> None:
        self.calls.append("pause")
        self.marked |= {TopicPartition(each.topic, each.partition) for each in places}

    def resume(self, places: Sequence[Any]) -> None:
        self.calls.append("resume")
        self.marked -= {TopicPartition(each.topic, each.partition) for each in places}

    def assign(self, places: Sequence[Any]) -> None:
        self.calls.append("assign")

    def unassign(self) -> None:
        self.calls.append("unassign")

    incremental_assign = assign

    def incremental_unassign(self, places: Sequence[Any]) -> None:
        self.calls.append("unassign")


def reading(client: RdMember | RdReader, consumer: Sticky) -> ConsumingThread:
    """The thread of a client that has read something of both partitions, and paused one of them."""
    thread = ConsumingThread(consumer, "t", lambda haul: None, lambda err: None, lambda: None)
    client._consumer, client._thread = consumer, thread
    thread._read_to = {BUSY: FULL, OTHER: 5}
    thread.paused = frozenset([BUSY])
    thread._turn()
    assert consumer.marked == {BUSY}
    consumer.calls.clear()
    return thread


def member_of(protocol: GroupProtocol, monkeypatch: pytest.MonkeyPatch) -> RdMember:
    broker = RdKafkaBroker("127.0.0.1:9", options=KafkaOptions(), group_protocol=protocol)
    member = broker.member("g", frozenset(["t"]), Owner())
    monkeypatch.setattr(member, "_tell", lambda what, telling: None)
    monkeypatch.setattr(member, "_post", lambda call, *arguments: None)
    member._begun = {BUSY: 0, OTHER: 0}
    return member


def full_of_paused(consumer: Consumer) -> ConsumingThread:
    """All that the loop has not taken is of a partition that it does not take from; of the other, 5 were read."""
    thread = ConsumingThread(consumer, "t", lambda haul: None, lambda err: None, lambda: None)
    thread.given = thread.exempt = FULL
    thread.closed = frozenset([BUSY])
    thread._read_to = {BUSY: FULL, OTHER: 5}
    return thread


@pytest.mark.parametrize(("end", "hauls"), [(5, 0), (6, 1)])
def test_paused_partitions_are_read_on_only_where_others_have_records_behind_them(end: int, hauls: int) -> None:
    consumer = Consumer(end)
    full_of_paused(consumer)._turn()
    assert consumer.hauls == hauls


def test_without_an_answer_others_are_read_as_if_they_had_records(monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka import KafkaError, KafkaException

    def fail(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    consumer = Consumer(5)
    monkeypatch.setattr(consumer, "offsets_for_times", fail)
    full_of_paused(consumer)._turn()
    assert consumer.hauls == 1


def test_a_partition_that_is_not_fetched_is_fetched_again_once_half_of_what_waits_is_taken() -> None:
    reader = RdKafkaBroker("127.0.0.1:9", options=KafkaOptions()).reader(frozenset([BUSY, OTHER]), from_end=False)
    reader._thread = thread = ConsumingThread(Consumer(0), "t", lambda haul: None, lambda err: None, lambda: None)
    most = thread.most_kept
    haul = Haul()
    haul.records[BUSY] = [ReadRecord("t", 0, offset, 0, None, b"", ()) for offset in range(most)]
    reader._shelf.own({BUSY: 0, OTHER: 0})
    reader._shelf.add(haul)
    stopped = []
    reader.pause(frozenset([BUSY]))
    stopped.append(thread.paused)
    reader.resume(frozenset([BUSY]))
    for _ in range(2):
        reader._shelf.take(most // 4, frozenset())
        reader._choose()
        stopped.append(thread.paused)
    assert stopped == [{BUSY}, {BUSY}, frozenset()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", ["revoked", "lost"])
def test_a_paused_partition_that_is_taken_away_is_read_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol, way: str
) -> None:
    member, consumer = member_of(protocol, monkeypatch), Sticky()
    reading(member, consumer)
    {"revoked": member._on_revoke, "lost": member._on_lost}[way](consumer, [Place(BUSY, 0), Place(OTHER, 0)])
    assert consumer.marked == set()
    assert consumer.calls == ["resume", "unassign"]


def test_one_that_stays_is_paused_further(monkeypatch: pytest.MonkeyPatch) -> None:
    member, consumer = member_of("consumer", monkeypatch), Sticky()
    thread = reading(member, consumer)
    member._on_revoke(consumer, [Place(OTHER, 0)])
    thread._turn()
    assert (consumer.calls, consumer.marked) == (["unassign"], {BUSY})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_seek_reads_a_paused_partition_on_and_pauses_it_only_when_something_came(
    monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    member, consumer = member_of(protocol, monkeypatch), Sticky()
    thread = reading(member, consumer)
    member._seek_now(BUSY, 3)
    thread._turn()
    assert (consumer.calls[0], consumer.calls[-1], consumer.marked) == ("resume", "assign", set())
    thread._read_to[BUSY] = 4
    thread._turn()
    assert (consumer.calls[-1], consumer.marked) == ("pause", {BUSY})


def test_who_is_left_alone_pauses_no_partition_of_which_nothing_came(monkeypatch: pytest.MonkeyPatch) -> None:
    member, consumer = member_of("classic", monkeypatch), Sticky()
    thread = reading(member, consumer)
    thread.going(frozenset([BUSY, OTHER]))
    thread._read_to[OTHER] = 6
    monkeypatch.setattr(thread, "_is_left_alone", lambda parked: True)
    thread._turn()
    assert consumer.marked == {OTHER}
