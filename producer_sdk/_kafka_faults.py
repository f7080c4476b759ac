"""Faults of Kafka and of its client in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NoBrokersAvailable,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)

from ._kafka_options import KafkaOptions
from .broker import BrokerError, Misconfigured, NotAllowed
from .rights import Operation, Resource, Right, refusal
from .security import Security

KAFKA_FAULTS = (KafkaError, OSError)
NOT_AUTHORIZED = (TopicAuthorizationFailedError, GroupAuthorizationFailedError, ClusterAuthorizationFailedError)
NUMBERING = Right(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)


class Refusals(NamedTuple):
    """Makes the errors for what Kafka does not allow this client. `name` are the bootstrap servers."""

    name: str
    security: Security

    def of(self, rights: Sequence[Right], doing: str) -> NotAllowed:
        return NotAllowed(refusal(rights, self.security.principal, self.name, doing), rights=rights)

    def topic(self, operation: Operation, topic: str, doing: str) -> NotAllowed:
        return self.of([Right(operation, Resource.TOPIC, topic)], doing)

    def group(self, operation: Operation, group: str, doing: str) -> NotAllowed:
        return self.of([Right(operation, Resource.GROUP, group)], doing)

    def numbering(self) -> NotAllowed:
        """Of a producer's first request. Brokers since 2.8 take WRITE on any topic for this right."""
        return self.of([NUMBERING], "publish to any topic (WRITE on one of them is enough since Kafka 2.8)")


def read_refusal(refusals: Refusals, group: str, err: BaseException) -> NotAllowed | None:
    """That a right to read is missing, where that is what Kafka says."""
    if isinstance(err, GroupAuthorizationFailedError):
        return refusals.group(Operation.READ, group, f"be a member of group {group!r}")
    if isinstance(err, TopicAuthorizationFailedError):
        told = err.args[0] if err.args else ()
        topics = [told] if isinstance(told, str) else sorted(map(str, told))
        return refusals.of([Right(Operation.READ, Resource.TOPIC, topic) for topic in topics], "read all that it reads")
    return None


def no_connection(name: str, options: KafkaOptions, err: BaseException) -> BrokerError:
    """The error for a first connection that failed."""
    if isinstance(err, KafkaConnectionError | NoBrokersAvailable):
        # The client says the same of a closed port and of one that speaks another protocol.
        protocol = options.security.protocol
        why = "nothing answers there" + ("" if protocol == "PLAINTEXT" else f" to security_protocol {protocol}")
    elif isinstance(err, TimeoutError):
        why = f"no answer within {options.send_timeout_s:g} s"
    else:
        why = in_words(err)
    return BrokerError(f"no connection to Kafka at {name}: {why}")


def other_members(name: str, group: str) -> Misconfigured:
    """The end of a member that shares out partitions by other rules than the members that are there."""
    return Misconfigured(
        f"group {group!r} at {name} has members of another Kafka client or group protocol, which cannot share it: "
        "give all workers of a model the same kafka_client and group_protocol, and stop the others first"
    )


def in_words(err: BaseException) -> str:
    """What went wrong, with Kafka's name for it where that helps to look it up."""
    if isinstance(err, KafkaConnectionError | NodeNotReadyError):
        return "the connection is lost or cannot be made"
    if isinstance(err, TimeoutError):
        return "no answer in time"
    text = str(err.args[0]) if err.args else ""
    text = text or getattr(err, "description", "") or getattr(err, "strerror", "") or ""
    if type(err) is KafkaError:  # the client's own, for which it has no name
        return " ".join(text.split()) or "an unnamed fault of the client"
    return f"{type(err).__name__}: {' '.join(text.split())}" if text else type(err).__name__
