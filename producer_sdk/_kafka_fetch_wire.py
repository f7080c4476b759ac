"""Fetch requests and their answers, version 11, in whole structures, and only what is new of either.

aiokafka writes and reads them value by value, and all partitions each time: 0.1 ms a fetch of 16 partitions. Brokers
older than 2.3 are asked as aiokafka does it.
"""

from __future__ import annotations

import struct
import types
from collections import defaultdict
from typing import Any

from aiokafka.consumer.fetcher import Fetcher
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v11, FetchResponse_v11

from ._kafka_fetch_session import Fetch, FetchSession
from ._kafka_frames import Answer

_HEAD = struct.Struct(">iiiibiii")  # as in Kafka's FetchRequest.json, up to the number of topics
_ASKED = struct.Struct(">iiqqi")  # partition, leader's epoch, offset, the log's start, most bytes
_ANSWER_HEAD = struct.Struct(">ihii")  # as in FetchResponse.json, up to the number of topics
_GIVEN = struct.Struct(">ihqqqi")  # partition, error, end, last stable offset, the log's start, aborted transactions
_ABORTED = struct.Struct(">qq")
_REST = struct.Struct(">ii")  # preferred replica, bytes of records
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")


def write_whole(fetcher: Any) -> None:
    """Have an aiokafka Fetcher ask so. Before anything else takes the place of its `_get_actions_per_node`.

    Its sessions, by broker, are `fetch_sessions` of it then.
    """
    plain = Fetcher._get_actions_per_node
    ours = types.FunctionType(plain.__code__, plain.__globals__ | {"FetchRequest": WholeFetch}, plain.__name__)
    fetcher.fetch_sessions = sessions = defaultdict[Any, FetchSession](FetchSession)

    def choose(fetcher: Any, assignment: Any) -> Any:
        actions = ours(fetcher, assignment)
        for node_id, request in actions[0]:
            request.session = sessions[node_id]
        return actions

    fetcher._get_actions_per_node = types.MethodType(choose, fetcher)


class WholeFetch(FetchRequest):  # type: ignore[misc]
    """Stands in the place of aiokafka's FetchRequest. Without a session it names everything, as that does."""

    session: FetchSession | None = None

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class is not FetchRequest_v11:
            return super().build(request_struct_class)
        written = super().build(_Written)
        written.session = self.session
        written.RESPONSE_TYPE = _Reader(self.session)
        return written


class _Reader:
    """Reads the answer to one fetch. aiokafka takes it for the class of the answer."""

    def __init__(self, session: FetchSession | None) -> None:
        self._session = session

    def decode(self, data: Any) -> Any:
        """Raises struct.error or ValueError: it ends too early."""
        throttle_ms, error, id, topics = _read(data if isinstance(data, Answer) else Answer(memoryview(data.read())))
        if self._session is not None:
            self._session.answered(error, id)
        return FetchResponse_v11(throttle_ms, error, id, topics)


class _Written(FetchRequest_v11):  # type: ignore[misc]
    session: FetchSession | None

    def encode(self) -> bytes:
        own = self.__dict__
        fetch = Fetch(own["session_id"], own["session_epoch"], own["topics"], {})
        if self.session is not None:
            fetch = self.session.ask(own["topics"])
        head = (own["replica_id"], own["max_wait_time"], own["min_bytes"], own["max_bytes"], own["isolation_level"],
                fetch.id, fetch.epoch, len(fetch.topics))  # fmt: skip
        parts = [_HEAD.pack(*head)]
        for topic, partitions in fetch.topics:
            parts += [_text(topic), _INT.pack(len(partitions)), *[_ASKED.pack(*each) for each in partitions]]
        parts.append(_INT.pack(len(fetch.forgotten)))
        for topic, numbers in fetch.forgotten.items():
            parts += [_text(topic), _INT.pack(len(numbers)), *[_INT.pack(each) for each in numbers]]
        return b"".join([*parts, _text(own["rack_id"])])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _read(answer: Answer) -> tuple[int, int, int, list[Any]]:
    """The fields of FetchResponse_v11."""
    content, at = answer.content, answer.at
    throttle_ms, error, session, count = _ANSWER_HEAD.unpack_from(content, at)
    at += _ANSWER_HEAD.size
    topics = []
    for _ in range(count):
        (size,) = _SHORT.unpack_from(content, at)
        name = str(answer.part(at + _SHORT.size, size), "utf-8")
        at += _SHORT.size + size
        (count_of_topic,) = _INT.unpack_from(content, at)
        at += _INT.size
        partitions = []
        for _ in range(count_of_topic):
            *given, count_of_aborted = _GIVEN.unpack_from(content, at)
            at += _GIVEN.size
            aborted = [] if count_of_aborted == 0 else _aborted(content, at, count_of_aborted)
            at += _ABORTED.size * len(aborted or ())
            replica, size = _REST.unpack_from(content, at)
            at += _REST.size
            if size > 0:
                partitions.append((*given, aborted, replica, answer.part(at, size)))
                at += size
            else:
                partitions.append((*given, aborted, replica, b"" if size == 0 else None))
        topics.append((name, partitions))
    return throttle_ms, error, session, topics


def _aborted(content: memoryview, at: int, count: int) -> list[tuple[int, int]] | None:
    """Producer and first offset of each; None where the broker names none."""
    return None if count < 0 else [_ABORTED.unpack_from(content, at + _ABORTED.size * n) for n in range(count)]
