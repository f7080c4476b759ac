"""Faults of librdkafka in words, and which of them pass by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ._kafka_faults import Refusals, other_members
from ._static_member import taken_over
from .broker import BrokerError, Misconfigured, NoSuchPlace, NotAllowed, TopicPartition
from .errors import HeadraceError, PayloadTooLarge
from .rights import Operation

# What calls of confluent-kafka raise: RuntimeError is its word for a client that is closed.
RDKAFKA_FAULTS = (KafkaException, RuntimeError, OSError)

TOO_LARGE = frozenset([KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE])
GONE_PLACE = frozenset(
    [
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ]
)
# A consumer gets over these: it looks for the leader, the coordinator or the connection again.
PASSING = GONE_PLACE | frozenset(
    [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._LOG_TRUNCATION,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.MEMBER_ID_REQUIRED,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ]
)
_LOST_CONNECTION = frozenset([KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE])
_LATE = frozenset([KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE])
_FENCED = frozenset([KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID])
_OTHER_MEMBERS = frozenset([KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.UNSUPPORTED_ASSIGNOR])


def error_of(err: BaseException) -> Any:
    """librdkafka's own error in what was raised, None if it is none."""
    return err.args[0] if isinstance(err, KafkaException) and err.args and isinstance(err.args[0], KafkaError) else None


def in_words(err: Any) -> str:
    """What went wrong, with Kafka's name for it where that helps to look it up."""
    error = err if isinstance(err, KafkaError) else error_of(err)
    if error is None:
        return " ".join(str(err).split()) or type(err).__name__
    if error.code() in _LOST_CONNECTION:
        return "the connection is lost or cannot be made"
    if error.code() in _LATE:
        return "no answer in time"
    return f"{error.name().removeprefix('_')}: {' '.join(error.str().split())}"


def passes(error: Any) -> bool:
    """Whether a consumer that saw this goes on by itself."""
    return not error.fatal() and (error.code() in PASSING or error.retriable())


def group_fault(name: str, group: str, instance_id: str | None, error: Any) -> BrokerError:
    """The end of a consumer by what Kafka said."""
    code = error.code()
    if code in _FENCED or (code == KafkaError._FATAL and "Static consumer fenced" in error.str()):
        return taken_over(group, instance_id)
    if code == KafkaError.INVALID_SESSION_TIMEOUT:
        allowed = "group.min.session.timeout.ms to group.max.session.timeout.ms (6 s to 30 min, unless set otherwise)"
        return Misconfigured(f"Kafka at {name} refuses session_timeout_s: it allows {allowed}")
    if code in _OTHER_MEMBERS:
        return other_members(name, group)
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return Misconfigured(
            f"Kafka at {name} does not know group_protocol consumer, which came with Kafka 4.0: use classic"
        )
    return stuck(name, error)


def stuck(name: str, error: Any, where: str = "") -> BrokerError:
    """That a consumer reads no more; `where` as of `place_of`."""
    return BrokerError(f"the consumer of Kafka at {name} cannot go on{where}, build it anew: {in_words(error)}")


def place_of(message: Any, positions: Mapping[TopicPartition, int]) -> str:
    """Where a record is that cannot be read, in words; empty for other faults."""
    if message.error().code() != KafkaError._BAD_MSG or message.topic() is None:
        return ""
    position = positions.get(TopicPartition(message.topic(), message.partition()), 0)
    offset = max(message.offset() or 0, position)
    return f" in topic {message.topic()!r} partition {message.partition()} from offset {offset}"


def read_refusal(refusals: Refusals, group: str, error: Any, topic: str | None) -> NotAllowed | None:
    """That a right to read is missing, where that is what Kafka says; `topic` is that of the message, if any."""
    code = error.code()
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return refusals.group(Operation.READ, group, f"be a member of group {group!r}")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return refusals.topic(Operation.READ, topic or "?", "read all that it reads")
    return None


def publish_fault(error: Any, topic: str, size: int, refusals: Refusals) -> HeadraceError:
    """The error for a record that was not acknowledged."""
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return refusals.topic(Operation.WRITE, topic, f"publish to topic {topic!r}")
    if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return refusals.numbering()
    if error.code() in TOO_LARGE:
        return PayloadTooLarge(
            f"the record for topic {topic!r} has {size} bytes: more than the topic's max.message.bytes"
        )
    if error.code() in GONE_PLACE:
        return NoSuchPlace(f"the record for topic {topic!r} was not taken: the topic or its partition is gone")
    return BrokerError(f"the record for topic {topic!r} was not acknowledged and may have arrived: {in_words(error)}")
