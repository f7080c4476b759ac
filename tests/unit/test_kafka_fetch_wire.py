"""Fetches are written and their answers read to the byte as aiokafka does it."""

import io
from typing import Any

import numpy as np
import pytest
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v4, FetchRequest_v11, FetchResponse_v11
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._kafka_fetch_wire import WholeFetch
from producer_sdk._kafka_frames import SMALL_BYTES, Answer

INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1)
TOPIC = st.text(max_size=20)
ASKED = st.tuples(TOPIC, st.lists(st.tuples(INT32, INT64, INT32), max_size=5))
GIVEN = st.tuples(
    *(INT32, st.integers(-1, 100), INT64, INT64, INT64),
    st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
    *(st.integers(-1, 5), st.none() | st.binary(max_size=40)),
)
TOPICS = st.lists(st.tuples(TOPIC, st.lists(GIVEN, max_size=5)), max_size=4)
ANSWER = st.builds(FetchResponse_v11, INT32, st.integers(-1, 100), INT32, TOPICS)
READ = WholeFetch(0, 0, 0, 0, []).build(FetchRequest_v11).RESPONSE_TYPE.decode


def in_memory(encoded: bytes) -> Answer:
    """As what was received where it stays; the head has been read."""
    answer = Answer(memoryview(np.frombuffer(b"head" + encoded, np.uint8)).toreadonly())
    answer.read(4)
    return answer


@given(wait=INT32, isolation=st.integers(0, 1), topics=st.lists(ASKED, max_size=4), rack=TOPIC)
def test_a_fetch_is_written_as_aiokafka_does(wait: int, isolation: int, topics: Any, rack: str) -> None:
    ours, theirs = (kind(wait, 1, 50, isolation, topics, rack) for kind in (WholeFetch, FetchRequest))
    assert ours.topics == topics
    for version in (FetchRequest_v11, FetchRequest_v4):
        assert ours.build(version).encode() == theirs.build(version).encode()


@given(answer=ANSWER)
def test_an_answer_is_read_as_aiokafka_does(answer: FetchResponse_v11) -> None:
    encoded = answer.encode()
    assert READ(io.BytesIO(encoded)) == FetchResponse_v11.decode(encoded) == answer
    assert READ(in_memory(encoded)) == answer


@given(answer=ANSWER, data=st.data())
def test_an_answer_that_ends_too_early_is_refused(answer: FetchResponse_v11, data: st.DataObject) -> None:
    encoded = answer.encode()
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    for read in (READ, FetchResponse_v11.decode):
        with pytest.raises(Exception, match=r".") as raised:
            read(io.BytesIO(cut))
        assert type(raised.value).__name__ in ("error", "ValueError", "UnicodeDecodeError")


def test_large_records_stay_where_they_were_received_and_small_ones_keep_no_answer() -> None:
    large, small = bytes(2 * SMALL_BYTES), b"small"
    partitions = [(n, 0, 1, 1, 0, [], -1, records) for n, records in enumerate((large, small))]
    answer = in_memory(FetchResponse_v11(0, 0, 0, [("t", partitions)]).encode())
    [(_, read)] = READ(answer).topics
    assert [type(records) for *_, records in read] == [memoryview, bytes]
    assert [bytes(records) for *_, records in read] == [large, small]
