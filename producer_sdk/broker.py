"""The narrow interface to a message broker. Implementations: kafka.py (aiokafka) and memory.py (in memory, for tests).

Everything above this file knows only these names; the promise tests run on each implementation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from .errors import Internal
from .rights import Right

Headers = Sequence[tuple[str, bytes]]

# Largest record published unless settings say otherwise: just below the `message.max.bytes` that brokers come with.
MAX_RECORD_BYTES = 1_048_000


class BrokerError(Internal):
    """The broker did not do what was asked; for a publish, whether the record arrived may be unknown."""


class NoSuchPlace(BrokerError):
    """The topic or its partition does not exist; nothing was published."""


class OutOfTurn(BrokerError):
    """What was sent just before was refused, and so was this: nothing was published, and the next try may pass."""


class CommitRefused(BrokerError):
    """The group no longer knows this member: its partitions belong to somebody else."""


class Misconfigured(BrokerError):
    """The broker refuses these settings; the same again cannot help."""

    retryable = False


class TlsFailed(Misconfigured):
    """Client and broker do not agree on TLS: a certificate is not accepted, or one of them does not speak it."""


class NotAuthenticated(Misconfigured):
    """The broker does not believe who the client says it is."""


class NotAllowed(BrokerError):
    """The broker knows the client and does not let it do that; it goes on once the rights are granted.

    Attributes:
        rights: those that are missing, as far as known.
    """

    retryable = False

    def __init__(self, message: str | None = None, *, id: str | None = None, rights: Sequence[Right] = ()) -> None:
        super().__init__(message, id=id)
        self.rights = tuple(rights)


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Outgoing(NamedTuple):
    """A record to publish. `timestamp_ms` None is now."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Placed(NamedTuple):
    """Where an acknowledged record lies."""

    topic: str
    partition: int
    offset: int


class Record(Protocol):
    """A record as consumed; `timestamp` is epoch milliseconds."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class Committed(NamedTuple):
    """What a group has committed for a partition: the next offset to read, and text beside it."""

    offset: int
    metadata: str = ""


class Bounds(NamedTuple):
    """Offsets that a partition holds: of the oldest record, and of the next one that readers will get."""

    first: int
    end: int


class Topic(NamedTuple):
    """A topic to create; `config` holds Kafka's topic settings by Kafka's names."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = {}


class Ownership(Protocol):
    """Told when partitions come and go. Both are awaited before the group goes on; keep `assigned` short.

    `assigned` gets, for each partition, the offset that reading begins at (what is committed, else the oldest record's)
    and the metadata committed beside it (empty where nothing is committed).

    A fault raised here ends the consumer: the next `poll` raises it as BrokerError.
    """

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None: ...
    async def revoked(self, partitions: frozenset[TopicPartition]) -> None: ...


class Acknowledgement(Protocol):
    """Awaitable of an acknowledged publish."""

    def __await__(self) -> Generator[object, None, Placed]: ...


class Producer(Protocol):
    """Publishes with acks=all and idempotence. One event loop; any task."""

    async def start(self) -> None: ...

    async def publish(self, topic: str, record: Outgoing, partition: int | None = None) -> Acknowledgement:
        """Hand over one record (waits while the buffer is full); await the result for the broker's acknowledgement.

        The topic must exist (`Admin.topics`); `partition` None spreads keyless records evenly and keyed ones by key.

        Raises (here or from the result):
            PayloadTooLarge: larger than the limit of the client or the topic.
            NoSuchPlace: there is no such topic, or it has fewer partitions.
            OutOfTurn: others that were sent before it were refused.
            BrokerError: not acknowledged in time, or refused.
        """
        ...

    async def publish_batch(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        """Publish records to one partition in order and wait for all acknowledgements; offset of the first.

        Far cheaper than `publish` for many records. Raises as `publish` does; on an error some may have arrived.
        """
        ...

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Flush and close within the time; what is unacknowledged then fails with BrokerError."""
        ...


@runtime_checkable
class AtOnce(Protocol):
    """What a producer may offer beside: handing over a record without a wait and without a future of its own."""

    def publish_now(self, topic: str, record: Outgoing, partition: int) -> Acknowledgement | None:
        """As `publish`; None where it would have to wait: nothing was handed over then.

        Records that are acknowledged together share one acknowledgement, which tells where the first of them lies. The
        refusal of one is the refusal of all.
        """
        ...


class Consumer(Protocol):
    """Reads partitions, either as member of a group or as a plain reader of fixed partitions. One task polls."""

    async def start(self) -> None: ...

    async def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        """What has arrived, waiting up to the time for the first. Never cancel it: use the timeout.

        Polling with every partition paused keeps the membership and gives nothing.

        Raises:
            BrokerError: the consumer cannot go on and must be built anew.
        """
        ...

    def assignment(self) -> frozenset[TopicPartition]: ...
    def pause(self, partitions: frozenset[TopicPartition]) -> None:
        """Stop reading from those; ignores partitions not assigned. A new assignment starts unpaused."""
        ...

    def resume(self, partitions: frozenset[TopicPartition]) -> None: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit for the group, bounded in time.

        Raises:
            CommitRefused: the membership at assignment is gone.
            BrokerError: no answer in time.
        """
        ...

    async def end_offsets(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    def positions(self) -> Mapping[TopicPartition, int]:
        """Offset of the next record to poll by partition, without asking the broker; unknown ones are absent."""
        ...

    def lag(self) -> Mapping[TopicPartition, int]:
        """Records not yet polled by partition, from the last fetch; partitions never fetched are absent."""
        ...

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Leave the group (without calling `revoked`) and close."""
        ...


class Admin(Protocol):
    """Looks at and makes topics. Looking never creates one."""

    async def start(self) -> None: ...
    async def topics(self) -> Mapping[str, int]:
        """Every topic and its number of partitions."""
        ...

    async def create_topics(self, topics: Sequence[Topic]) -> frozenset[str]:
        """Create those that are missing; returns the names created. Raises BrokerError saying which failed and why."""
        ...

    async def committed(self, group: str) -> Mapping[TopicPartition, Committed]: ...
    async def missing(self, rights: Iterable[Right]) -> NotAllowed | None:
        """That this client lacks some of these rights, as an error to raise; None where it has all. Looks only.

        Raises BrokerError without answer.
        """
        ...

    async def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """What each partition holds now. Raises NoSuchPlace for one that does not exist, BrokerError without answer."""
        ...

    async def stop(self) -> None: ...


class GroupOptions(NamedTuple):
    """How a group member behaves; all in seconds.

    `rebalance_timeout_s` must exceed the drain budget of `Ownership.revoked`.
    """

    session_timeout_s: float = 30.0
    heartbeat_interval_s: float = 3.0
    rebalance_timeout_s: float = 60.0
    max_poll_interval_s: float = 300.0
    instance_id: str | None = None


DEFAULT_GROUP_OPTIONS = GroupOptions()


class Broker(Protocol):
    """Makes clients for one cluster. `name` says which, for people."""

    @property
    def name(self) -> str: ...
    def producer(self) -> Producer: ...
    def admin(self) -> Admin: ...

    def member(
        self, group: str, topics: frozenset[str], ownership: Ownership, options: GroupOptions = DEFAULT_GROUP_OPTIONS
    ) -> Consumer:
        """A member of a group; reads from the earliest record where nothing is committed, commits only when told."""
        ...

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> Consumer:
        """A reader of fixed partitions; its positions are fixed when `start` returns, at the end or the beginning."""
        ...
