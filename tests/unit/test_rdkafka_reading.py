"""Reading on librdkafka beside partitions that are paused: what was fetched is not thrown away for nothing."""

from typing import Any

import pytest

from producer_sdk._rdkafka_records import Haul
from producer_sdk._rdkafka_thread import ConsumingThread
from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.kafka import KafkaOptions
from producer_sdk.rdkafka import RdKafkaBroker

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
