"""Faults of Kafka and of its client in words."""

from __future__ import annotations

from aiokafka.errors import KafkaConnectionError, KafkaError, NoBrokersAvailable, NodeNotReadyError

from ._kafka_options import KafkaOptions
from .broker import BrokerError, Misconfigured

KAFKA_FAULTS = (KafkaError, OSError)


def no_connection(name: str, options: KafkaOptions, err: BaseException) -> BrokerError:
    """The error for a first connection that failed."""
    if isinstance(err, KafkaConnectionError | NoBrokersAvailable):
        # The client says the same of a closed port and of one that speaks another protocol.
        plain = options.security_protocol == "PLAINTEXT"
        why = "nothing answers there" + ("" if plain else f" to security_protocol {options.security_protocol}")
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
