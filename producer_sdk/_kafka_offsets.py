"""Committed offsets of a group, read and written with every error of the broker seen.

aiokafka overlooks errors that concern the whole group: it takes them as "nothing committed" and starts from the
beginning. And it commits with the generation of the moment, so a commit retried over a rebalance overwrites the
offsets of the next owner. Here a commit always carries the membership that it was made under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka.errors import (
    IllegalGenerationError,
    KafkaError,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from .broker import Committed, TopicPartition

MEMBERSHIP_GONE = (IllegalGenerationError, UnknownMemberIdError, RebalanceInProgressError)


class Membership(NamedTuple):
    """Who a member is to the group, from one assignment to the next."""

    generation: int
    member_id: str


def fetch_request(group: str, partitions: Iterable[TopicPartition] | None) -> Any:
    """Asks for the committed offsets of those partitions, None for all."""
    if partitions is None:
        return OffsetFetchRequest(group, None)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return OffsetFetchRequest(group, list(by_topic.items()))


def read_fetched(response: Any) -> dict[TopicPartition, Committed]:
    """Offsets from the answer; partitions with nothing committed are absent. Raises KafkaError."""
    _check(getattr(response, "error_code", 0))
    committed = {}
    for topic, partitions in response.topics:
        for partition, offset, metadata, code in partitions:
            _check(code)
            if offset >= 0:
                # confluent-kafka commits a text with the NUL that ends it in C.
                committed[TopicPartition(topic, partition)] = Committed(offset, (metadata or "").removesuffix("\0"))
    return committed


def commit_request(group: str, membership: Membership, offsets: Mapping[TopicPartition, Committed]) -> Any:
    by_topic: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for (topic, partition), (offset, metadata) in offsets.items():
        by_topic[topic].append((partition, offset, metadata))
    retention = OffsetCommitRequest.DEFAULT_RETENTION_TIME
    return OffsetCommitRequest(group, membership.generation, membership.member_id, retention, list(by_topic.items()))


def read_committed(response: Any) -> None:
    """Raises the KafkaError of a partition that was not committed; of several, one that no retry helps."""
    codes = {code for _, partitions in response.topics for _, code in partitions}
    for code in sorted(codes, key=lambda code: for_code(code).retriable):
        _check(code)


def _check(code: int) -> None:
    error = for_code(code)
    if error is not NoError:
        fault: KafkaError = error()
        raise fault
