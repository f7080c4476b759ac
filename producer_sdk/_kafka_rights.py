"""Asks Kafka what the client may do: two requests tell all, and change nothing.

The versions that tell it are newer than those of aiokafka, or read wrongly by it, so they are written down here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import GroupAuthorizationFailedError, NoError, TopicAuthorizationFailedError, for_code
from aiokafka.protocol.admin import DescribeGroupsResponse_v3
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from .rights import Operation, Resource, Right

# Kafka's numbers of operations, which are places of bits in what it answers.
_BITS = {
    Operation.READ: 3,
    Operation.WRITE: 4,
    Operation.CREATE: 5,
    Operation.DESCRIBE: 8,
    Operation.IDEMPOTENT_WRITE: 12,
}
_NOT_TOLD = -(1 << 31)


class Held(NamedTuple):
    """What the client may do, as sets of bits; None is all, where Kafka does not tell."""

    cluster: int | None
    topics: Mapping[str, int | None]
    groups: Mapping[str, int | None]


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("authorized_operations", Int32),
    )


class _MetadataStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _MetadataRequest(Request[_MetadataStruct]):  # type: ignore[misc]
    """Of these topics, without making any."""

    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(self._topics, False, True, True)


class _DescribeGroupsStruct(RequestStruct):  # type: ignore[misc]
    # aiokafka has this request, and reads the answer as that of the version before.
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = DescribeGroupsResponse_v3
    SCHEMA = Schema(("groups", Array(String("utf-8"))), ("include_authorized_operations", Boolean))


class _DescribeGroupsRequest(Request[_DescribeGroupsStruct]):  # type: ignore[misc]
    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([self._group], True)


async def held(client: Any, coordinator_of: Any, rights: Collection[Right]) -> Held:
    """What the client of aiokafka may do to everything that the rights name. Raises KafkaError."""
    topics = sorted({right.name for right in rights if right.resource is Resource.TOPIC})
    groups = sorted({right.name for right in rights if right.resource is Resource.GROUP})
    answer = await client.send(client.get_random_node(), _MetadataRequest(topics))
    of_topics = {name: _bits_of(code, bits) for code, name, _, _, bits in answer.topics}
    of_groups = {group: await _of_group(client, coordinator_of, group) for group in groups}
    return Held(_told(answer.authorized_operations), of_topics, of_groups)


async def _of_group(client: Any, coordinator_of: Any, group: str) -> int | None:
    try:
        node = await coordinator_of(group)
    except GroupAuthorizationFailedError:
        return 0
    answer = await client.send(node, _DescribeGroupsRequest(group))
    code, *_, bits = answer.groups[0]
    error = for_code(code)
    if error is GroupAuthorizationFailedError:
        return 0
    if error is not NoError:
        raise error
    return _told(bits)


def _bits_of(code: int, bits: int) -> int | None:
    """A topic that is not there has rights all the same; one that may not be seen has none."""
    return 0 if for_code(code) is TopicAuthorizationFailedError else _told(bits)


def _told(bits: int) -> int | None:
    return None if bits == _NOT_TOLD else bits


def lacking(rights: Collection[Right], held: Held) -> list[Right]:
    """Those of the rights that are not held, each once. Pure.

    A prefixed right is looked at on its prefix, taken for a name; CREATE on the cluster is CREATE on each topic.
    """
    return [right for right in dict.fromkeys(rights) if not _is_held(right, held)]


def _is_held(right: Right, held: Held) -> bool:
    if right.resource is Resource.CLUSTER:
        return _has(held.cluster, right.operation)
    if right.operation is Operation.CREATE and _has(held.cluster, right.operation):
        return True
    names = held.topics if right.resource is Resource.TOPIC else held.groups
    return _has(names.get(right.name, 0), right.operation)


def _has(bits: int | None, operation: Operation) -> bool:
    return bits is None or bool(bits >> _BITS[operation] & 1)
