"""What librdkafka gave in one go, sorted by partition, as records that can be read without calls into C.

Attributes that are filled at once cost two thirds of properties that ask librdkafka's message on each use.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from confluent_kafka import KafkaError

from ._read_record import ReadRecord
from .broker import Record, TopicPartition

log = logging.getLogger(__name__)
_place = attrgetter("topic", "partition")


class Haul:
    """Records by partition in order.

    `ends` are partitions that were read to their end, and where that is; `highs` is where partitions ended at the last
    fetch, with what cannot be read yet.
    """

    __slots__ = ("count", "ends", "errors", "highs", "nbytes", "records")

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[Record]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.highs: dict[TopicPartition, int] = {}
        self.errors: list[Any] = []  # messages that are no records
        self.count = 0
        self.nbytes = 0


def sorted_out(messages: Sequence[Any]) -> Haul:
    """What lies in messages of one `consume`."""
    haul = Haul()
    if no_records := [message for message in messages if message.error() is not None]:
        for message in no_records:
            _note(haul, message)
        messages = [message for message in messages if message.error() is None]
    records = records_of(messages)
    haul.count = len(records)
    haul.nbytes = sum([len(record.value or b"") for record in records])
    for place, some in groupby(records, _place):
        haul.records.setdefault(TopicPartition(*place), []).extend(some)
    return haul


def records_of(messages: Sequence[Any]) -> list[Record]:
    """The records that messages hold, one for each."""
    try:
        return [
            ReadRecord(
                message.topic(),
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                message.headers() or (),
            )
            for message in messages
        ]
    except SystemError:  # a header name that is not UTF-8
        if len(messages) == 1:
            return [_stand_in(messages[0])]
        return [record for message in messages for record in records_of([message])]


def _note(haul: Haul, message: Any) -> None:
    if message.error().code() == KafkaError._PARTITION_EOF:
        haul.ends[TopicPartition(message.topic(), message.partition())] = message.offset()
    else:
        haul.errors.append(message)


def _stand_in(message: Any) -> ReadRecord:
    """In place of a record that Python cannot be given: its place is all that is sure of it."""
    log.warning(
        "The record at offset %d of topic %r partition %d has a header name that is not UTF-8: it is passed on "
        "without its content, which stays in the topic.",
        message.offset(),
        message.topic(),
        message.partition(),
        extra={"action": "unreadable_header"},
    )
    return ReadRecord(message.topic(), message.partition(), message.offset(), -1, None, None, ())
