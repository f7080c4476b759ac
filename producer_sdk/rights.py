"""What each role needs of Kafka's rights: the one table behind the checks at start, the sentences and the docs.

Nothing of headrace uses transactions, so no role needs a right on a transactional id. A producer numbers its records:
since Kafka 2.8 WRITE on any topic covers that, and IDEMPOTENT_WRITE on the cluster is needed by older ones only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from .topics import Topics

if TYPE_CHECKING:
    from .broker import Broker


class Operation(StrEnum):
    """What may be done, in Kafka's words; READ and WRITE bring DESCRIBE with them."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class Resource(StrEnum):
    """What it may be done to."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


class Right(NamedTuple):
    """One right; `prefixed` is one on everything whose name begins so. The cluster needs no name."""

    operation: Operation
    resource: Resource
    name: str = ""
    prefixed: bool = False

    def __str__(self) -> str:
        beginning = "beginning with " if self.prefixed else ""
        return f"{self.operation.name} on {self.resource} {beginning}{self.name}".rstrip()


class Role(StrEnum):
    """Who asks Kafka for something, each member with what it covers."""

    PRODUCER = "producer"  # a program with the SDK: infer, publish, map, cancel
    WORKER = "worker"  # headrace worker, its topics there already
    GATEWAY = "gateway"  # headrace gateway; headrace infer, publish, cancel and models list
    TOPICS = "topics"  # headrace topics create and list; a worker that creates topics needs this besides
    DEAD = "dead"  # headrace dead list, show and redrive
    VERIFY = "verify"  # headrace verify, replies and simulate


_CLUSTER_CREATE = Right(Operation.CREATE, Resource.CLUSTER)
_NUMBERING = Right(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)


def rights_of(role: Role, prefix: str, models: Iterable[str], *, events: bool = False) -> list[Right]:
    """The least rights of a role for these models. `events` are those that a worker publishes when told to."""
    topics, names = Topics(prefix), sorted(set(models))
    if role is Role.TOPICS:
        return [
            Right(operation, Resource.TOPIC, f"{prefix}.", True) for operation in (Operation.CREATE, Operation.DESCRIBE)
        ]
    rights = _shared(role, topics)
    for model in names:
        rights += _of_model(role, topics, model)
    if events and role is Role.WORKER:
        rights.append(_write(topics.events))
    return rights


def _shared(role: Role, topics: Topics) -> list[Right]:
    """On topics that belong to no model."""
    replies, control, cancels = topics.replies, topics.control, topics.cancels
    match role:
        case Role.PRODUCER:
            return [_read(replies), _write(cancels), _describe(control)]
        case Role.GATEWAY:
            return [_read(replies), _write(cancels), _read(control)]
        case Role.WORKER:
            return [_write(replies), _read(cancels), _write(control)]
        case Role.VERIFY:
            return [_read(replies), _read(topics.events)]
        case _:
            return []


def _of_model(role: Role, topics: Topics, model: str) -> list[Right]:
    lanes, retry, results, dead = topics.lanes(model), topics.retry(model), topics.results(model), topics.dead(model)
    match role:
        case Role.PRODUCER | Role.GATEWAY:
            return [_write(lane) for lane in lanes]
        case Role.WORKER:
            read = [_read(topic) for topic in (*lanes, retry)]
            written = [_write(topic) for topic in (retry, results, dead)]
            return [*read, *written, Right(Operation.READ, Resource.GROUP, topics.group(model))]
        case Role.DEAD:
            return [_read(dead), _write(dead), *(_write(lane) for lane in lanes)]
        case Role.VERIFY:
            read = [_read(topic) for topic in (*lanes, retry, results, dead)]
            return [*read, Right(Operation.DESCRIBE, Resource.GROUP, topics.group(model))]
        case _:
            return []


def _read(topic: str) -> Right:
    return Right(Operation.READ, Resource.TOPIC, topic)


def _write(topic: str) -> Right:
    return Right(Operation.WRITE, Resource.TOPIC, topic)


def _describe(topic: str) -> Right:
    return Right(Operation.DESCRIBE, Resource.TOPIC, topic)


def commands(rights: Sequence[Right], principal: str, bootstrap_servers: str) -> list[str]:
    """What grants these rights: one `kafka-acls.sh` for all resources that get the same operations."""
    by_resource: dict[tuple[Resource, str, bool], list[str]] = {}
    for right in rights:
        by_resource.setdefault(right[1:], []).append(right.operation)
    same: dict[tuple[Resource, bool, tuple[str, ...]], list[str]] = {}
    for (resource, name, prefixed), operations in by_resource.items():
        same.setdefault((resource, prefixed, tuple(dict.fromkeys(operations))), []).append(name)
    lines = []
    for (resource, prefixed, granted), names in same.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_servers, "--add", "--allow-principal", principal]
        words += [word for operation in granted for word in ("--operation", operation)]
        words += ["--resource-pattern-type", "prefixed"] if prefixed else []
        words += ["--cluster"] if resource is Resource.CLUSTER else [
            word for name in names for word in (f"--{resource}", name)
        ]  # fmt: skip
        lines.append(" ".join(words))
    return lines


def refusal(rights: Sequence[Right], principal: str | None, bootstrap_servers: str, doing: str) -> str:
    """The sentence for missing rights: who lacks what, and the commands that grant it."""
    who = principal or "the principal of this client"
    grants = "; ".join(commands(rights, principal or "User:NAME", bootstrap_servers.partition(",")[0].strip()))
    needed = ", ".join(map(str, rights))
    return f"Kafka at {bootstrap_servers} does not let {who} {doing}: it needs {needed}. Grant it by: {grants}"


async def missing_rights(
    broker: Broker, role: Role, models: Iterable[str], *, prefix: str = "headrace", events: bool = False
) -> list[Right]:
    """Which rights of a role the client of this broker lacks; empty where Kafka has no authorizer.

    Raises:
        BrokerError: Kafka does not answer.
    """
    admin = broker.admin()
    try:
        await admin.start()
        fault = await admin.missing(rights_of(role, prefix, models, events=events))
    finally:
        await admin.stop()
    return [] if fault is None else list(fault.rights)
