"""Commits of a member, fenced by the membership under which it got its partitions.

librdkafka commits with the membership of the moment, and lets a member that the group has put out commit as nobody,
which an empty group accepts. So a commit is made in the thread that is told of partitions that go, between two of its
polls, with a look at the member's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ._kafka_faults import Refusals
from ._rdkafka_faults import error_of, in_words, passes, read_refusal
from .broker import BrokerError, CommitRefused, Committed, TopicPartition

_GONE = frozenset(
    [
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError._ASSIGNMENT_LOST,
    ]
)
# A member keeps its partitions while the group is rebalanced; its next generation or epoch is on the way.
_UNDER_WAY = frozenset([KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH])


class Unsettled(BrokerError):
    """The commit was not taken now; the same again may be."""


def commit_now(
    consumer: Any, group: str, member_id: str, offsets: Mapping[TopicPartition, Committed], refusals: Refusals
) -> None:
    """Commit once. Blocks.

    Raises:
        CommitRefused: the group has given the partitions to somebody else.
        Unsettled: try again.
        NotAllowed: the client may not commit, any more or yet.
        BrokerError: the commit was not taken.
    """
    if consumer.memberid() != member_id:
        raise CommitRefused(f"group {group!r} no longer knows this member: it has another id")
    # Kafka gets a NUL behind the text, which readers take off again; with no text at all it gets none.
    asked = [KafkaPartition(*where, offset, *([text] if text else ())) for where, (offset, text) in offsets.items()]
    error = _attempt(consumer, asked)
    if error is None:
        return
    if error.code() in _GONE or error.fatal():
        raise CommitRefused(f"group {group!r} no longer knows this member: {in_words(error)}")
    if (refused := read_refusal(refusals, group, error, None)) is not None:
        raise refused
    fault = Unsettled if error.code() in _UNDER_WAY or passes(error) else BrokerError
    raise fault(f"group {group!r} did not take a commit: {in_words(error)}")


def _attempt(consumer: Any, asked: list[Any]) -> Any:
    """The first error, None if all was committed."""
    try:
        answered = consumer.commit(offsets=asked, asynchronous=False)
    except KafkaException as err:
        return error_of(err)
    return next((each.error for each in answered if each.error is not None), None)
