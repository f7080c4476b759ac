"""Topics and committed offsets of a Kafka cluster, each wait bounded."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.consumer.fetcher import READ_COMMITTED, OffsetResetStrategy
from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.offset import OffsetRequest

from ._kafka_closing import close_wholly
from ._kafka_diagnosis import check_token_was_taken, connection_fault
from ._kafka_faults import KAFKA_FAULTS, NOT_AUTHORIZED, Refusals, in_words
from ._kafka_metadata import all_metadata
from ._kafka_offsets import fetch_request, read_fetched
from ._kafka_options import KafkaOptions
from ._kafka_rights import held, lacking
from .broker import Bounds, BrokerError, Committed, NoSuchPlace, NotAllowed, Topic, TopicPartition
from .rights import Operation, Resource, Right

_LOOK_AGAIN_S = 0.05
T = TypeVar("T")


def plain_admin(bootstrap_servers: str, options: KafkaOptions) -> AIOKafkaAdminClient:
    """aiokafka's own client, not started, which closes wholly."""
    client = AIOKafkaAdminClient(**options.connection(bootstrap_servers))
    close_wholly(client._client, options.security)
    return client


class KafkaAdmin:
    """Implements `broker.Admin`. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self._name = bootstrap_servers
        self._options = options
        self._client: Any = None
        self._refusals = Refusals(bootstrap_servers, options.security)

    async def start(self) -> None:
        self._client = plain_admin(self._name, self._options)
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                await self._client.start()
            check_token_was_taken(self._client._client, self._options)
        except KAFKA_FAULTS as err:
            await self.stop()
            raise await connection_fault(self._name, self._options, err) from err

    async def topics(self) -> Mapping[str, int]:
        cluster = await self._in_time("list its topics", lambda: all_metadata(self._client._client))
        return {topic: len(cluster.partitions_for_topic(topic)) for topic in cluster.topics()}

    async def create_topics(self, topics: Sequence[Topic]) -> frozenset[str]:
        present = await self.topics()
        missing = [_new_topic(topic) for topic in topics if topic.name not in present]
        if not missing:
            return frozenset()
        response = await self._in_time("create topics", lambda: self._client.create_topics(missing))
        created, faults, refused = set(), [], []
        for name, code, message in response.topic_errors:
            error = for_code(code)
            if error is NoError:
                created.add(name)
            elif error in (TopicAuthorizationFailedError, ClusterAuthorizationFailedError):
                refused.append(Right(Operation.CREATE, Resource.TOPIC, name))
            elif error is not TopicAlreadyExistsError:
                faults.append(f"{name!r}: {message or error.description}")
        await self._in_time("show the new topics", lambda: self._visible(created))
        if refused:
            raise self._refusals.of(refused, "create topics that are missing")
        if faults:
            raise BrokerError(f"Kafka at {self._name} did not create topic {'; '.join(faults)}")
        return frozenset(created)

    async def committed(self, group: str) -> Mapping[TopicPartition, Committed]:
        async def ask() -> Mapping[TopicPartition, Committed]:
            coordinator = await self._client.find_coordinator(group)
            return read_fetched(await self._client._send_request(fetch_request(group, None), coordinator))

        needed = Right(Operation.DESCRIBE, Resource.GROUP, group)
        return await self._in_time(f"say what group {group!r} has committed", ask, [needed])

    async def missing(self, rights: Iterable[Right]) -> NotAllowed | None:
        wanted = list(rights)

        async def ask() -> list[Right]:
            try:
                return lacking(wanted, await held(self._client._client, self._client.find_coordinator, wanted))
            except IncompatibleBrokerVersion:  # Kafka tells since 2.3; older ones say so when something is refused
                return []

        lacked = await self._in_time("say what this client may do", ask) if wanted else []
        return self._refusals.of(lacked, "do all that it has to") if lacked else None

    async def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        wanted = frozenset(partitions)

        async def ask() -> Mapping[TopicPartition, Bounds]:
            cluster = await all_metadata(self._client._client)
            self._check_led(cluster, wanted)
            first = await self._offsets(cluster, wanted, OffsetResetStrategy.EARLIEST)
            end = await self._offsets(cluster, wanted, OffsetResetStrategy.LATEST)
            return {place: Bounds(first[place], end[place]) for place in wanted}

        needed = [Right(Operation.DESCRIBE, Resource.TOPIC, topic) for topic in sorted({each.topic for each in wanted})]
        try:
            return await self._in_time("say what partitions hold", ask, needed)
        except NoSuchPlace as err:
            raise await self.missing(needed) or err from None

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _visible(self, names: set[str]) -> None:
        """Wait until each partition has a leader that knows it is one."""
        while names:
            if await self._led(names):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _led(self, names: set[str]) -> bool:
        cluster = await all_metadata(self._client._client)
        wanted = []
        for name in names:
            partitions = cluster.partitions_for_topic(name)
            if not partitions or partitions != cluster.available_partitions_for_topic(name):
                return False
            wanted += [TopicPartition(name, partition) for partition in partitions]
        try:
            await self._offsets(cluster, wanted, OffsetResetStrategy.LATEST)
        except BrokerResponseError:
            return False
        return True

    def _check_led(self, cluster: Any, partitions: Iterable[TopicPartition]) -> None:
        """Raises NoSuchPlace for partitions that do not exist, LeaderNotAvailableError while one has no leader."""
        leaders = {place: cluster.leader_for_partition(place) for place in partitions}
        missing = sorted(place for place, leader in leaders.items() if leader is None)
        if missing:
            names = ", ".join(f"{topic}:{partition}" for topic, partition in missing)
            raise NoSuchPlace(f"{names} do not exist at {self._name}")
        if -1 in leaders.values():
            raise LeaderNotAvailableError

    async def _offsets(
        self, cluster: Any, partitions: Iterable[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        """Asks the leader of each partition for its first or last offset. Raises KafkaError."""
        by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for place in partitions:
            by_leader[cluster.leader_for_partition(place)][place.topic].append((place.partition, which))
        offsets = {}
        for leader, wanted in by_leader.items():
            request = OffsetRequest(-1, READ_COMMITTED, list(wanted.items()))
            response = await self._client._client.send(leader, request)
            for topic, answers in response.topics:
                for partition, code, _, offset, *_ in answers:
                    error = for_code(code)
                    if error is not NoError:
                        raise error
                    offsets[TopicPartition(topic, partition)] = offset
        return offsets

    async def _in_time(self, what: str, ask: Callable[[], Awaitable[T]], rights: Sequence[Right] = ()) -> T:
        """Ask, again after faults that pass by themselves, within the time of a send. `rights` are those it takes."""
        fault: KafkaError | None = None
        try:
            async with asyncio.timeout(self._options.send_timeout_s):
                while True:
                    try:
                        return await ask()
                    except KafkaError as err:
                        if not err.retriable:
                            raise
                        fault = err
                    await asyncio.sleep(self._options.retry_backoff_s)
        except KAFKA_FAULTS as err:
            if isinstance(err, NOT_AUTHORIZED) and rights:
                raise self._refusals.of(rights, what) from err
            raise BrokerError(f"Kafka at {self._name} could not {what}: {in_words(fault or err)}") from err


def _new_topic(topic: Topic) -> Any:
    new = NewTopic(topic.name, topic.partitions, 1, None, dict(topic.config))
    new.replication_factor = topic.replication_factor  # its constructor refuses -1, the broker's own default
    return new
