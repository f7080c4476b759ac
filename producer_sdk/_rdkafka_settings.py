"""The settings of librdkafka's clients, made from ours. docs/kafka-clients.md tells how they differ from aiokafka's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal

from ._kafka_options import KafkaOptions
from ._tokens import Tokens
from .broker import GroupOptions
from .security import Security

GroupProtocol = Literal["classic", "consumer"]

# Between an empty queue and the next fetch; the default of a second leaves the consumer idle most of the time.
FETCH_BACKOFF_MS = 5
QUEUED_RECORDS = 20_000
QUEUED_BYTES = 16 << 20
BUFFERED_RECORDS = 100_000
BUFFERED_BYTES = 64 << 20
_FETCH_WAIT_MS = 100  # a partition that comes or is resumed waits for the fetch under way to end
_LEAST_SOCKET_TIMEOUT_MS = 10
_LEAST_SETUP_TIMEOUT_MS = 1000
_RESPONSE_OVERHEAD_BYTES = 1 << 16

log = logging.getLogger("librdkafka")
# What goes wrong is raised as an error; librdkafka would write its lines to stderr in a program without logging.
log.addHandler(logging.NullHandler())


def connection(
    options: KafkaOptions, bootstrap_servers: str, loop: asyncio.AbstractEventLoop | None = None
) -> dict[str, Any]:
    """What each client needs to connect. In `loop` an asynchronous token callback is awaited."""
    timeout_ms = round(options.request_timeout_s * 1000)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": options.client_id,
        "security.protocol": options.security.protocol,
        "socket.timeout.ms": max(_LEAST_SOCKET_TIMEOUT_MS, timeout_ms),
        "socket.connection.setup.timeout.ms": max(_LEAST_SETUP_TIMEOUT_MS, timeout_ms),
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
        "reconnect.backoff.max.ms": 1000,
        "retry.backoff.ms": round(options.retry_backoff_s * 1000),
        "log.connection.close": False,
        "logger": log,
    }
    return settings | _tls(options.security) | _sasl(options.security, loop)


def consumer_settings(options: KafkaOptions, group: str) -> dict[str, Any]:
    fetch_bytes = max(options.fetch_max_bytes, options.max_record_bytes)
    return {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "enable.partition.eof": True,  # tells the end of a partition behind records that are none
        "check.crcs": options.check_crcs,
        "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
        "fetch.wait.max.ms": _FETCH_WAIT_MS,
        "fetch.message.max.bytes": options.partition_fetch_bytes,
        "fetch.max.bytes": fetch_bytes,
        "message.max.bytes": max(1000, min(options.max_record_bytes, 1_000_000_000)),
        "receive.message.max.bytes": fetch_bytes + _RESPONSE_OVERHEAD_BYTES,
        "queued.min.messages": QUEUED_RECORDS,
        "queued.max.messages.kbytes": max(QUEUED_BYTES, options.partition_fetch_bytes) >> 10,
    }


def group_settings(options: GroupOptions, protocol: GroupProtocol) -> dict[str, Any]:
    """How a member behaves. With the protocol `consumer` session timeout and heartbeats are settings of the broker.

    librdkafka knows no rebalance timeout: its group waits for a member as long as that may go without a poll.
    """
    longest_s = max(options.max_poll_interval_s, options.rebalance_timeout_s, options.session_timeout_s)
    settings: dict[str, Any] = {"max.poll.interval.ms": round(longest_s * 1000), "group.protocol": protocol}
    if options.instance_id is not None:
        settings["group.instance.id"] = options.instance_id
    # By topic, as the load is: by number alone, who joins may get partitions of other lanes and none of the busy one.
    if protocol == "consumer":
        settings["group.remote.assignor"] = "range"
    else:
        settings |= {
            "partition.assignment.strategy": "range",
            "session.timeout.ms": round(options.session_timeout_s * 1000),
            "heartbeat.interval.ms": round(options.heartbeat_interval_s * 1000),
        }
    return settings


def producer_settings(options: KafkaOptions) -> dict[str, Any]:
    timeout_ms = round(options.send_timeout_s * 1000)
    return {
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "none",
        "partitioner": "murmur2_random",
        # What is published in one go travels together. librdkafka sleeps whole milliseconds, so that a shorter time is
        # no less, and spins while records are due behind those of their partition that are not acknowledged yet.
        "linger.ms": 1,
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": round(options.request_timeout_s * 1000),
        "message.max.bytes": max(1000, options.max_record_bytes),
        "batch.size": options.max_record_bytes,
        "queue.buffering.max.messages": BUFFERED_RECORDS,
        "queue.buffering.max.kbytes": max(BUFFERED_BYTES, 2 * options.max_record_bytes) >> 10,
        # Topics are looked up before anything is published to them, so one that is not there is gone.
        "topic.metadata.propagation.max.ms": 3000,
    }


def _tls(security: Security) -> dict[str, Any]:
    if not security.uses_tls:
        return {}
    given = {
        "ssl.ca.location": security.cafile,
        "ssl.certificate.location": security.certfile,
        "ssl.key.location": security.keyfile or security.certfile,
        "ssl.key.password": security.key_password,
    }
    settings: dict[str, Any] = {name: str(value) for name, value in given.items() if value is not None}
    settings["ssl.endpoint.identification.algorithm"] = "https" if security.check_hostname else "none"
    return settings


def _sasl(security: Security, loop: asyncio.AbstractEventLoop | None) -> dict[str, Any]:
    if not security.uses_sasl:
        return {}
    if security.tokens is not None:
        return {"sasl.mechanism": security.sasl_mechanism, "oauth_cb": _token_callback(security.tokens, loop)}
    return {
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.username,
        "sasl.password": str(security.password),
    }


def _token_callback(tokens: Tokens, loop: asyncio.AbstractEventLoop | None) -> Callable[[str], tuple[str, float]]:
    """Called in a thread of librdkafka, at the start and again when four fifths of a token's life are over."""

    def ask(_: str) -> tuple[str, float]:
        if loop is None:
            raise RuntimeError("there is no event loop to ask for a token in")
        token = tokens.get_blocking(loop)
        return str(token.value), token.expires_at_s

    return ask
