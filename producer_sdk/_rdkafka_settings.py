"""The settings of librdkafka's clients, made from ours. docs/kafka-clients.md tells how they differ from aiokafka's."""

from __future__ import annotations

import logging
from typing import Any, Literal

from ._kafka_options import KafkaOptions
from .broker import GroupOptions

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


def connection(options: KafkaOptions, bootstrap_servers: str) -> dict[str, Any]:
    """What each client needs to connect."""
    timeout_ms = round(options.request_timeout_s * 1000)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": options.client_id,
        "security.protocol": options.security_protocol,
        "socket.timeout.ms": max(_LEAST_SOCKET_TIMEOUT_MS, timeout_ms),
        "socket.connection.setup.timeout.ms": max(_LEAST_SETUP_TIMEOUT_MS, timeout_ms),
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
        "reconnect.backoff.max.ms": 1000,
        "retry.backoff.ms": round(options.retry_backoff_s * 1000),
        "log.connection.close": False,
        "logger": log,
    }
    return settings | _tls(options) | _sasl(options)


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
    if protocol == "classic":
        settings |= {
            "partition.assignment.strategy": "cooperative-sticky",
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
        "linger.ms": 0.5,  # what is published in one go travels together: half the CPU of 0
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": round(options.request_timeout_s * 1000),
        "message.max.bytes": max(1000, options.max_record_bytes),
        "batch.size": options.max_record_bytes,
        "queue.buffering.max.messages": BUFFERED_RECORDS,
        "queue.buffering.max.kbytes": max(BUFFERED_BYTES, 2 * options.max_record_bytes) >> 10,
        # Topics are looked up before anything is published to them, so one that is not there is gone.
        "topic.metadata.propagation.max.ms": 3000,
    }


def _tls(options: KafkaOptions) -> dict[str, Any]:
    if not options.security_protocol.endswith("SSL"):
        return {}
    given = {
        "ssl.ca.location": options.ssl_ca_location,
        "ssl.certificate.location": options.ssl_certificate_location,
        "ssl.key.location": options.ssl_key_location,
        "ssl.key.password": options.ssl_key_password,
    }
    settings: dict[str, Any] = {name: str(value) for name, value in given.items() if value is not None}
    settings["ssl.endpoint.identification.algorithm"] = "https" if options.ssl_check_hostname else "none"
    return settings


def _sasl(options: KafkaOptions) -> dict[str, Any]:
    if not options.security_protocol.startswith("SASL_"):
        return {}
    return {
        "sasl.mechanism": options.sasl_mechanism,
        "sasl.username": options.sasl_username,
        "sasl.password": str(options.sasl_password),
    }
