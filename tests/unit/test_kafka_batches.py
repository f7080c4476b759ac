"""The batches of a fetched partition: all that are whole, none that is damaged, and nothing outlives their reading."""

import weakref
from typing import Any

import numpy as np
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from producer_sdk import _kafka_batches
from producer_sdk._kafka_batches import Batches, keep_batches
from producer_sdk._kafka_haul import Hauled


def batch(*values: bytes, magic: int = 2) -> bytes:
    if magic < 2:
        legacy = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
        for offset, value in enumerate(values):
            legacy.append(offset, 1000, None, value)
        return bytes(legacy.build())
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, 1000, b"k", value, [])
    return bytes(builder.build())


def values(batches: Any) -> list[bytes]:
    found = []
    while batches.has_next():
        found += [record.value for record in batches.next_batch()]
    return found


@pytest.fixture(params=["aiokafka's checksum", "a fast checksum"])
def checksum(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = None if request.param.startswith("aiokafka") else lambda part: calc_crc32c(bytes(part))
    monkeypatch.setattr(_kafka_batches, "_fast_crc", fast)


@pytest.mark.parametrize("kind", [bytes, lambda data: memoryview(np.frombuffer(data, np.uint8))])
@pytest.mark.parametrize("cut", [0, 1, 160])
def test_whole_batches_of_each_version_are_read_and_one_that_is_cut_off_is_left_out(kind: Any, cut: int) -> None:
    data = batch(b"a", b"b") + batch(b"c", magic=1) + batch(b"d" * 100)
    batches = Batches(kind(data[: len(data) - cut]))
    assert [value[:1] for value in values(batches)] == [b"a", b"b", b"c", b"d"][: 4 - (cut > 0)]
    assert batches.size_in_bytes() == len(data) - cut


def test_an_answer_without_records_has_none() -> None:
    assert not Batches(b"").has_next()
    assert Batches(b"").next_batch() is None


@pytest.mark.parametrize("length", [-20, 0, 13, 20, 48])
def test_a_batch_that_is_too_short_to_be_one_is_never_read(length: int) -> None:
    data = bytearray(batch(b"a" * 100))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    batches = Batches(bytes(data))
    assert batches.has_next()
    with pytest.raises(CorruptRecordException, match="too short"):
        batches.next_batch()


@pytest.mark.usefixtures("checksum")
@pytest.mark.parametrize("magic", [1, 2])
def test_each_batch_is_checked_by_its_own_checksum(magic: int) -> None:
    damaged = bytearray(batch(b"bbb", magic=magic))
    damaged[-2] ^= 1
    batches = Batches(batch(b"a", magic=magic) + damaged + batch(b"c", magic=magic))
    assert [batches.is_sound(batches.next_batch()) for _ in range(3)] == [True, False, True]


@pytest.mark.usefixtures("checksum")
def test_a_damaged_batch_is_not_given_out() -> None:
    data = batch(b"a") + batch(b"b")[:-2] + b"??"
    held = Hauled(PartitionRecords(PLACE, Batches(data), None, 0, None, None, True, READ_COMMITTED))
    with pytest.raises(CorruptRecordException):
        held.take(5)


PLACE = TopicPartition("t", 0)


def test_what_was_fetched_is_free_once_it_is_taken_without_a_garbage_collection() -> None:
    memory = np.frombuffer(batch(b"a", b"b"), np.uint8).copy()
    gone = weakref.ref(memory)
    held = Hauled(PartitionRecords(PLACE, Batches(memoryview(memory)), None, 0, None, None, True, READ_COMMITTED))
    del memory
    assert [record.value for record in held.take(5)] == [b"a", b"b"]
    del held
    assert gone() is None


def test_aiokafkas_own_fetchers_stay_as_they_are() -> None:
    fetcher = Fetcher.__new__(Fetcher)
    keep_batches(fetcher)
    assert fetcher._proc_fetch_request.__func__.__globals__["MemoryRecords"] is Batches
    assert Fetcher._proc_fetch_request.__globals__["MemoryRecords"] is MemoryRecords
