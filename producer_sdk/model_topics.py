"""The topics of one model, as the worker and `headrace topics create` make them."""

from __future__ import annotations

from .broker import Topic
from .topics import Topics, check_model_name

REQUEST_PARTITIONS = 8
RESULT_PARTITIONS = 8
DEAD_PARTITIONS = 1
# One for so many partitions of a request topic: it carries failures only, but all of them when what a model relies on
# is down, and then more than one worker should take part.
REQUEST_PARTITIONS_PER_RETRY = 4
# A record may wait a day there, and the workers may be away besides; brokers may keep far less than Kafka's own week.
RETRY_RETENTION_MS = str(7 * 24 * 3600 * 1000)
# Long enough to be looked into after a holiday; Kafka's default is a week.
DEAD_RETENTION_MS = str(30 * 24 * 3600 * 1000)


def model_topics(
    topics: Topics, model: str, *, partitions: int = REQUEST_PARTITIONS, replication_factor: int = -1
) -> list[Topic]:
    """One request topic a lane, the default result topic, retries, dead letters. `partitions` are the request topics'.

    Raises:
        InvalidRequest: the model's name cannot be part of a topic name.
    """
    check_model_name(model)
    requests = [Topic(name, partitions, replication_factor) for name in topics.lanes(model)]
    retry_partitions = max(1, partitions // REQUEST_PARTITIONS_PER_RETRY)
    kept = {"cleanup.policy": "delete", "retention.ms": RETRY_RETENTION_MS}
    return [
        *requests,
        Topic(topics.retry(model), retry_partitions, replication_factor, kept),
        Topic(topics.results(model), RESULT_PARTITIONS, replication_factor),
        Topic(topics.dead(model), DEAD_PARTITIONS, replication_factor, {"retention.ms": DEAD_RETENTION_MS}),
    ]
