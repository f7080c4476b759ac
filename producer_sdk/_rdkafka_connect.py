"""The first answer of a cluster to a client of librdkafka, which by itself would try to connect for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ._kafka_diagnosis import diagnosed
from ._kafka_faults import Refusals
from ._kafka_options import KafkaOptions
from ._rdkafka_faults import error_of, in_words
from .broker import BrokerError, NoSuchPlace, NotAuthenticated, TopicPartition

_FIRST_ATTEMPT_S = 0.5
_REFUSED = frozenset([KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED])
T = TypeVar("T")


async def connected(name: str, options: KafkaOptions, connect: Callable[[], T]) -> T:
    """What `connect` gives, which blocks, and runs in a thread.

    Raises:
        BrokerError: there is no connection; as closely as can be found out, why.
    """
    tokens = options.security.tokens
    try:
        if tokens is not None:  # librdkafka waits ten seconds for one that does not come
            await tokens.get()
        return await asyncio.to_thread(connect)
    except NoSuchPlace:
        raise
    except NotAuthenticated as err:
        raise NotAuthenticated(f"no connection to Kafka at {name}: {err.message}") from err
    except (BrokerError, KafkaException) as err:
        if (error := error_of(err)) is not None and error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            raise Refusals(name, options.security).numbering() from err
        plain = err if isinstance(err, BrokerError) else None
        plain = plain or BrokerError(f"no connection to Kafka at {name}: {in_words(err)}")
        raise await diagnosed(name, options) or plain from err


class Contact:
    """What librdkafka said of its connections; `heard` is given to it as `error_cb`. Any thread."""

    def __init__(self, name: str, options: KafkaOptions) -> None:
        self._name = name
        self._options = options
        self._down = False
        self._refused: Any = None

    def heard(self, error: Any) -> None:
        self._down = self._down or error.code() == KafkaError._ALL_BROKERS_DOWN
        if error.code() in _REFUSED:
            self._refused = error

    def cluster(self, client: Any) -> Any:
        """All topics; blocks until there is an answer, at most `send_timeout_s`.

        Raises:
            BrokerError: nothing answers.
        """
        try:
            return self._answer(client)
        finally:
            del client  # the traceback would keep it, and its attempts to connect, alive as long as the error

    def _answer(self, client: Any) -> Any:
        ends_at = time.monotonic() + self._options.send_timeout_s
        attempt_s = _FIRST_ATTEMPT_S
        while True:
            left_s = ends_at - time.monotonic()
            try:
                return client.list_topics(timeout=max(0.01, min(attempt_s, left_s)))
            except KafkaException as err:
                client.poll(0)
                error = error_of(err)
            why = self._why_not(error, late=left_s <= attempt_s)
            if why:
                del client
                raise BrokerError(f"no connection to Kafka at {self._name}: {why}")
            attempt_s *= 2

    def _why_not(self, error: Any, *, late: bool) -> str:
        """Why there will be no answer; empty while there may be one."""
        if self._refused is not None:
            return in_words(self._refused)
        if self._down:
            return "nothing answers there" + self._protocol()
        if error.code() not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
            return in_words(error)
        return f"no answer within {self._options.send_timeout_s:g} s" if late else ""

    def _protocol(self) -> str:
        protocol = self._options.security.protocol
        return "" if protocol == "PLAINTEXT" else f" to security_protocol {protocol}"


def counts(cluster: Any) -> dict[str, int]:
    """Topics that exist, and how many partitions each has."""
    return {name: len(topic.partitions) for name, topic in cluster.topics.items() if topic.partitions}


def check_exist(cluster: Any, partitions: Collection[TopicPartition], name: str) -> None:
    """Raises NoSuchPlace for partitions that are not there."""
    known = counts(cluster)
    missing = sorted(f"{p.topic}:{p.partition}" for p in partitions if not 0 <= p.partition < known.get(p.topic, 0))
    if missing:
        raise NoSuchPlace(f"{', '.join(missing)} do not exist at {name}: create the topics first")
