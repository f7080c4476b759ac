"""What Kafka tells of its topics and its clock; nothing is written.

A client of aiokafka asks, whichever client the settings name: the brokers are the same.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from msgspec import Struct

from producer_sdk.kafka import KafkaBroker

_QUORUM_TOPIC = "__cluster_metadata"


class TopicFacts(Struct, frozen=True):
    """How a topic is.

    Attributes:
        replicas: copies of the partition that has the fewest.
        leaderless: partitions without a leader.
        lagging: partitions with a copy that is not in sync.
        config: its settings by Kafka's names; None where this client may not read them.
    """

    name: str
    partitions: int
    replicas: int
    leaderless: int = 0
    lagging: int = 0
    config: Mapping[str, str] | None = None


class Clock(Struct, frozen=True):
    """How far Kafka's clock is ahead of this machine's, give or take `doubt_s`."""

    ahead_s: float
    doubt_s: float


class Described(Struct, frozen=True):
    """What Kafka tells; `clock` None where it does not."""

    brokers: int
    topics: tuple[TopicFacts, ...]
    clock: Clock | None


async def describe(broker: KafkaBroker, names: Collection[str]) -> Described:
    """The topics of these names that are there. Raises KafkaError."""
    client = broker.aiokafka_admin()
    try:
        await client.start()
        told = await client.describe_topics(sorted(names)) if names else []
        there = [each for each in told if not each["error_code"]]
        configs = await _configs(client, [each["topic"] for each in there])
        topics = tuple(_facts(each, configs.get(each["topic"])) for each in there)
        return Described(len(client._client.cluster.brokers()), topics, await _clock(client))
    finally:
        await client.close()


async def _configs(client: Any, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Settings of the topics that this client may read them of."""
    if not names:
        return {}
    answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if not code
    }


def _facts(told: Mapping[str, Any], config: Mapping[str, str] | None) -> TopicFacts:
    partitions = told["partitions"]
    return TopicFacts(
        told["topic"],
        len(partitions),
        min((len(each["replicas"]) for each in partitions), default=0),
        sum(each["leader"] < 0 for each in partitions),
        sum(len(each["isr"]) < len(each["replicas"]) for each in partitions),
        config,
    )


_REPLICAS = CompactArray(
    ("replica_id", Int32),
    ("log_end_offset", Int64),
    ("last_fetch_timestamp", Int64),
    ("last_caught_up_timestamp", Int64),
    ("tags", TaggedFields),
)


class _QuorumResponse(Response):  # type: ignore[misc]
    API_KEY = 55
    API_VERSION = 1
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("voters", _REPLICAS),
                        ("observers", _REPLICAS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _QuorumStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 55
    API_VERSION = 1
    RESPONSE_TYPE = _QuorumResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("partitions", CompactArray(("partition", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _QuorumRequest(Request[_QuorumStruct]):  # type: ignore[misc]
    """How far the controllers are. Their leader answers with its own time as when it was last caught up with itself."""

    API_KEY = 55

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([(_QUORUM_TOPIC, [(0, {})], {})], {})


async def _clock(client: Any) -> Clock | None:
    """None where Kafka is older than 3.3, or this client lacks DESCRIBE on the cluster."""
    node = client._client.get_random_node()
    try:
        await client._client.ready(node)
        asked_at = time.time()
        answer = await client._client.send(node, _QuorumRequest())
        doubt_s = (time.time() - asked_at) / 2
        _, ((_, code, leader, _, _, voters, *_),), _ = answer.topics[0]
    except (KafkaError, NotImplementedError, IndexError, ValueError):  # NotImplementedError: Kafka lacks the request
        return None
    stamps = [voter[3] for voter in voters if voter[0] == leader]
    if answer.error_code or code or not stamps or stamps[0] <= 0:
        return None
    return Clock(stamps[0] / 1000 - asked_at - doubt_s, doubt_s)
