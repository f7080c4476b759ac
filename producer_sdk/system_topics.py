"""The topics that belong to no model, with the settings that headrace relies on: replies, control, cancels, and events
where workers tell them.
"""

from __future__ import annotations

from .broker import Admin, Topic
from .rights import Operation, Resource, Right
from .topics import Topics

REPLY_PARTITIONS = 32
_HOUR_MS = "3600000"
_SHORT = {"cleanup.policy": "delete", "retention.ms": _HOUR_MS}
# Every worker reads the cancels at its start, and Kafka deletes whole segments only.
_CANCELS = _SHORT | {"segment.ms": "600000"}


def system_topics(
    topics: Topics, replication_factor: int = -1, reply_partitions: int = REPLY_PARTITIONS
) -> list[Topic]:
    """Replies (kept an hour), control (compacted) and cancels (an hour); -1 is the broker's replication."""
    compacted = {"cleanup.policy": "compact", "segment.ms": _HOUR_MS, "min.cleanable.dirty.ratio": "0.1"}
    return [
        Topic(topics.replies, reply_partitions, replication_factor, _SHORT),
        Topic(topics.control, 1, replication_factor, compacted),
        Topic(topics.cancels, 1, replication_factor, _CANCELS),
    ]


def events_topic(topics: Topics, replication_factor: int = -1) -> Topic:
    """Events of workers, kept an hour; one partition, since all of them are read together or not at all."""
    return Topic(topics.events, 1, replication_factor, _SHORT)


async def ensure_system_topics(
    admin: Admin,
    topics: Topics,
    replication_factor: int = -1,
    reply_partitions: int = REPLY_PARTITIONS,
    *,
    events: bool = False,
) -> None:
    """Create those that are missing, before any look-up makes the broker create them with its own settings.

    `events` also makes the topic of events, which nobody needs else.

    Raises:
        NotAllowed: the client may not see a topic, or not create one that is missing.
        BrokerError: a topic is missing and could not be created.
    """
    existing = await admin.topics()
    wanted = system_topics(topics, replication_factor, reply_partitions)
    wanted += [events_topic(topics, replication_factor)] if events else []
    missing = [topic for topic in wanted if topic.name not in existing]
    if missing:
        # Kafka hides what a client may not see, and what is hidden must not be taken for missing.
        hidden = await admin.missing([Right(Operation.DESCRIBE, Resource.TOPIC, topic.name) for topic in missing])
        if hidden is not None:
            raise hidden
        await admin.create_topics(missing)
