"""Records of reply topics are read for their head alone, and partitions to their end and no further."""

import pytest

from headrace.verify_read import read_partitions
from headrace.verify_records import Answer, read_answer
from producer_sdk.broker import Bounds, BrokerError, Outgoing, Record, Topic, TopicPartition
from producer_sdk.errors import InferenceFailed
from producer_sdk.memory import MemoryBroker
from producer_sdk.oip import encode_json_error, encode_json_reply
from producer_sdk.wire import encode_error, encode_reply

FAULT = InferenceFailed("it failed")
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (encode_reply("a", "m", "1", {}, {"batch_rows": 1}), Answer("a", "OK", "m")),
        (encode_error("a", "m", "1", FAULT), Answer("a", "INFERENCE_FAILED", "m")),
        (encode_json_reply("a", "m", "1", {}, {}), Answer("a", "OK", "m")),
        (b"\xef\xbb\xbf " + encode_json_error("a", FAULT), Answer("a", "INFERENCE_FAILED", None)),
        (encode_json_error(None, FAULT), Answer("key", "INFERENCE_FAILED", None)),
    ],
)
def test_a_reply_of_either_form_is_read(value: bytes, answer: Answer) -> None:
    assert read_answer(value, b"key") == answer


@pytest.mark.parametrize(
    "value", [None, b"", b"text", b"{", b"{}", b"[1]", b"\x95\x02\xa1a\xa1m\xa11\xc0", b"\x91\x01"]
)
def test_what_is_no_reply_of_a_known_form_is_none(value: bytes | None) -> None:
    assert read_answer(value, b"key") is None


def test_an_error_of_a_later_release_keeps_its_code() -> None:
    assert read_answer(b'{"id": "a", "error": "x", "code": "NEW_CODE"}', None) == Answer("a", "NEW_CODE", None)


async def holding(values: int) -> MemoryBroker:
    broker = MemoryBroker()
    await broker.admin().create_topics([Topic("t", 1)])
    producer = broker.producer()
    await producer.start()
    await producer.publish_batch("t", 0, [Outgoing(None, b"%d" % n) for n in range(values)])
    return broker


async def test_records_beyond_the_end_are_not_taken() -> None:
    taken: list[Record] = []
    await read_partitions(await holding(5), {PLACE: Bounds(0, 3)}, taken.append)
    assert [record.value for record in taken] == [b"0", b"1", b"2"]


async def test_last_records_that_are_deleted_meanwhile_hold_up_nobody() -> None:
    broker = await holding(3)
    broker.cut(PLACE, 3)
    taken: list[Record] = []
    await read_partitions(broker, {PLACE: Bounds(0, 3)}, taken.append)
    assert taken == []


class Withholding(MemoryBroker):
    """Gives no record, and says that there are some, as Kafka does while a transaction is open."""

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool):  # type: ignore[no-untyped-def]
        reader = super().reader(partitions, from_end=from_end)
        reader.pause = lambda partitions: None  # type: ignore[method-assign]
        start = reader.start

        async def start_held() -> None:
            await start()
            reader._held = True

        reader.start = start_held  # type: ignore[method-assign]
        return reader


async def test_records_that_do_not_come_end_the_reading_with_their_place() -> None:
    broker = Withholding()
    await broker.admin().create_topics([Topic("t", 1)])
    producer = broker.producer()
    await producer.start()
    await producer.publish_batch("t", 0, [Outgoing(None, b"x")])
    with pytest.raises(BrokerError, match="t:0 gives no record from offset 0 on, though it ends at 1"):
        await read_partitions(broker, {PLACE: Bounds(0, 1)}, lambda record: None, stall_s=0.1)
