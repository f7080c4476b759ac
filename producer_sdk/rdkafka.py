"""Kafka as the message broker, on librdkafka: less CPU a record than aiokafka, heartbeats on a thread of its own."""

from __future__ import annotations

from dataclasses import replace

from ._kafka_options import DEFAULT_KAFKA_OPTIONS, KafkaOptions
from .broker import DEFAULT_GROUP_OPTIONS, GroupOptions, Misconfigured, Ownership, TopicPartition

try:
    import confluent_kafka  # noqa: F401 - to say what is missing before anything else fails
except ImportError as err:
    raise Misconfigured(
        "the Kafka client librdkafka needs the package confluent-kafka: install headrace[librdkafka], "
        "or of the SDK alone headrace-sdk[librdkafka]"
    ) from err

from ._rdkafka_admin import RdAdmin
from ._rdkafka_member import RdMember
from ._rdkafka_producer import RdProducer
from ._rdkafka_reader import RdReader
from ._rdkafka_settings import GroupProtocol
from .security import Security

__all__ = ["GroupProtocol", "KafkaOptions", "RdKafkaBroker", "Security"]


class RdKafkaBroker:
    """Makes clients for the Kafka cluster at `bootstrap_servers` (`host:port`, several by commas).

    Partitions are shared out topic by topic; members on aiokafka cannot join the same group. With `group_protocol`
    classic all partitions are given back and shared out anew when a member comes or goes. consumer is KIP-848, where
    only those that move are, and the broker's settings say how long a member may be silent. `security` takes the place
    of that in the options.

    Raises:
        Misconfigured: the package confluent-kafka is not there (when this module is imported).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        options: KafkaOptions = DEFAULT_KAFKA_OPTIONS,
        security: Security | None = None,
        group_protocol: GroupProtocol = "classic",
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.options = options if security is None else replace(options, security=security)
        self.options.warn()
        self.group_protocol: GroupProtocol = group_protocol

    def __repr__(self) -> str:
        return f"RdKafkaBroker({self.bootstrap_servers!r}, options={self.options!r})"

    @property
    def name(self) -> str:
        return f"Kafka at {self.bootstrap_servers}"

    def producer(self) -> RdProducer:
        return RdProducer(self.bootstrap_servers, self.options)

    def admin(self) -> RdAdmin:
        return RdAdmin(self.bootstrap_servers, self.options)

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> RdMember:
        """A member of a group. `assigned` also tells a member that it has joined and got no partition."""
        return RdMember(self.bootstrap_servers, self.options, group, topics, ownership, options, self.group_protocol)

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> RdReader:
        return RdReader(self.bootstrap_servers, self.options, partitions, from_end=from_end)
