"""The topics that belong to no model: replies, control and cancels, with the settings that headrace relies on."""

from __future__ import annotations

from .broker import Admin, Topic
from .topics import Topics

REPLY_PARTITIONS = 32
_HOUR_MS = "3600000"


def system_topics(
    topics: Topics, replication_factor: int = -1, reply_partitions: int = REPLY_PARTITIONS
) -> list[Topic]:
    """Replies (kept an hour), control (compacted) and cancels (an hour); -1 is the broker's replication."""
    short = {"cleanup.policy": "delete", "retention.ms": _HOUR_MS}
    compacted = {"cleanup.policy": "compact", "segment.ms": _HOUR_MS, "min.cleanable.dirty.ratio": "0.1"}
    return [
        Topic(topics.replies, reply_partitions, replication_factor, short),
        Topic(topics.control, 1, replication_factor, compacted),
        Topic(topics.cancels, 1, replication_factor, short),
    ]


async def ensure_system_topics(
    admin: Admin, topics: Topics, replication_factor: int = -1, reply_partitions: int = REPLY_PARTITIONS
) -> None:
    """Create those that are missing, before any look-up makes the broker create them with its own settings.

    Raises:
        BrokerError: a topic is missing and could not be created.
    """
    existing = await admin.topics()
    wanted = system_topics(topics, replication_factor, reply_partitions)
    missing = [topic for topic in wanted if topic.name not in existing]
    if missing:
        await admin.create_topics(missing)
