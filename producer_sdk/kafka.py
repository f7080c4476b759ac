"""Kafka as the message broker, on aiokafka."""

from __future__ import annotations

import logging
from dataclasses import replace

from aiokafka.admin import AIOKafkaAdminClient

from ._kafka_admin import KafkaAdmin, plain_admin
from ._kafka_consumer import KafkaReader
from ._kafka_member import KafkaMember
from ._kafka_options import DEFAULT_KAFKA_OPTIONS, KafkaOptions
from ._kafka_producer import KafkaProducer
from .broker import DEFAULT_GROUP_OPTIONS, GroupOptions, Ownership, TopicPartition
from .security import Security

__all__ = ["KafkaBroker", "KafkaOptions", "Security"]

# What goes wrong is raised here as an error. In a program that has not set up logging, aiokafka would write a line to
# stderr for each attempt to reach a broker that is away.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


class KafkaBroker:
    """Makes clients for the Kafka cluster at `bootstrap_servers` (`host:port`, several by commas)."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        options: KafkaOptions = DEFAULT_KAFKA_OPTIONS,
        security: Security | None = None,
    ) -> None:
        """`security` takes the place of that in the options."""
        self.bootstrap_servers = bootstrap_servers
        self.options = options if security is None else replace(options, security=security)
        self.options.warn()

    def __repr__(self) -> str:
        return f"KafkaBroker({self.bootstrap_servers!r}, options={self.options!r})"

    @property
    def name(self) -> str:
        return f"Kafka at {self.bootstrap_servers}"

    def producer(self) -> KafkaProducer:
        return KafkaProducer(self.bootstrap_servers, self.options)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.bootstrap_servers, self.options)

    def aiokafka_admin(self) -> AIOKafkaAdminClient:
        """aiokafka's own client, for what `admin` does not offer: start and close it."""
        return plain_admin(self.bootstrap_servers, self.options)

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> KafkaMember:
        """A member of a group. `assigned` also tells a member that it has joined and got no partition."""
        return KafkaMember(self.bootstrap_servers, self.options, group, topics, ownership, options)

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> KafkaReader:
        return KafkaReader(self.bootstrap_servers, self.options, partitions, from_end=from_end)
