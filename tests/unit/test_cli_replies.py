"""Replies on the terminal, and the address that they go to: both are looked at before anything is promised."""

import json

import numpy as np
import pytest

from headrace.publish import check_address
from headrace.reply_reader import ReplyReader, open_replies
from headrace.show_reply import reply_text
from producer_sdk.broker import Outgoing, Record, Topic
from producer_sdk.errors import InferenceFailed, InvalidRequest
from producer_sdk.memory import MemoryBroker
from producer_sdk.oip import encode_json_error
from producer_sdk.tensors import Tensor
from producer_sdk.topics import parse_reply_to
from producer_sdk.wire import encode_error, encode_reply

TOPIC = "headrace.m.results"
Values = list[bytes | None]


async def holding(*values: bytes, partitions: int = 2) -> MemoryBroker:
    """A broker whose topic holds these values, written one after the other to its partitions in turn."""
    broker = MemoryBroker()
    await broker.admin().create_topics([Topic(TOPIC, partitions)])
    for number, value in enumerate(values):
        await write(broker, value, number)
    return broker


async def write(broker: MemoryBroker, value: bytes, number: int) -> None:
    producer = broker.producer()
    await producer.start()
    await (await producer.publish(TOPIC, Outgoing(b"key", value, (), 1000 + number), partition=number % 2))
    await producer.stop()


async def values(reader: ReplyReader, limit: int) -> Values:
    return [record.value for record in await reader.last(limit)]


@pytest.mark.parametrize(("limit", "expected"), [(0, []), (2, [b"3", b"4"]), (9, [b"0", b"1", b"2", b"3", b"4"])])
async def test_the_newest_replies_come_oldest_first(limit: int, expected: Values) -> None:
    async with open_replies(await holding(*(b"%d" % n for n in range(5))), TOPIC) as reader:
        assert await values(reader, limit) == expected


async def test_each_new_reply_follows_once() -> None:
    broker = await holding(b"0", b"1", b"2")
    async with open_replies(broker, TOPIC) as reader:
        await write(broker, b"3", 3)
        assert await values(reader, 1) == [b"2"]
        await write(broker, b"4", 4)
        seen = [record.value for _ in range(3) for record in await reader.next()]
    assert seen == [b"3", b"4"]


async def test_a_topic_that_is_not_there_is_refused_not_created() -> None:
    broker = MemoryBroker()
    with pytest.raises(InvalidRequest, match=r"there is no topic headrace\.none\.results"):
        async with open_replies(broker, "headrace.none.results"):
            pass
    assert await broker.admin().topics() == {}


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("headrace.mine.results", "make it by `headrace topics create --reply-topic headrace.mine.results`"),
        (f"{TOPIC}:2", "has partitions 0 to 1"),
        ("other.mine.results", "use a topic under headrace."),
        ("headrace.m.async", "is not allowed"),
    ],
)
async def test_an_address_that_no_reply_can_reach_is_refused(address: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        await check_address(await holding(), "headrace", parse_reply_to(address))


@pytest.mark.parametrize("address", [TOPIC, f"{TOPIC}:1"])
async def test_an_address_that_is_there_passes(address: str) -> None:
    await check_address(await holding(), "headrace", parse_reply_to(address))


async def only_record(value: bytes) -> Record:
    async with open_replies(await holding(value), TOPIC) as reader:
        (record,) = await reader.last(1)
    return record


Y = Tensor.from_array(np.array([[1.5, 2]], np.float32))
RESULT = encode_reply("a", "m", "1", {"y": Y.to_ext()}, {"batch_rows": 3})
FAILED = InferenceFailed("no luck")


async def test_a_result_is_shown_with_its_values() -> None:
    when, where, values = reply_text(await only_record(RESULT), as_json=False).replace("\n", "  ").split("  ", 2)
    assert (len(when), where) == (19, "a")
    assert values == "m version 1, batch of 3 rows    y FP32 1x2: 1.5, 2"


async def test_a_batch_of_one_row_is_no_batch_of_rows() -> None:
    one = encode_reply("a", "m", "1", {}, {"batch_rows": 1})
    assert reply_text(await only_record(one), as_json=False).endswith("version 1, batch of 1 row")


@pytest.mark.parametrize("value", [encode_error("b", "m", "1", FAILED), encode_json_error("b", FAILED)])
async def test_an_error_of_either_form_is_shown_and_is_json(value: bytes) -> None:
    record = await only_record(value)
    assert reply_text(record, as_json=False).endswith("b  INFERENCE_FAILED\n  no luck")
    assert json.loads(reply_text(record, as_json=True)) == {"id": "b", "error": "no luck", "code": "INFERENCE_FAILED"}


async def test_json_is_one_line_of_the_protocol() -> None:
    text = reply_text(await only_record(RESULT), as_json=True)
    assert "\n" not in text
    assert json.loads(text)["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.0]}]


async def test_a_record_that_is_no_reply_is_shown_by_its_key() -> None:
    text = reply_text(await only_record(b"\xc1 junk"), as_json=False)
    assert "  key  INVALID_REQUEST\n" in text
