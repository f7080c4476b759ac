"""Topics and committed offsets of a Kafka cluster on librdkafka, each wait bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka import admin as _admin_module

from ._kafka_faults import Refusals
from ._kafka_hidden import asking, or_hidden
from ._kafka_options import KafkaOptions
from ._rdkafka_connect import Contact, check_exist, connected, counts
from ._rdkafka_faults import RDKAFKA_FAULTS, error_of, in_words, passes
from ._rdkafka_settings import connection
from .broker import Bounds, BrokerError, Committed, NoSuchPlace, NotAllowed, Topic, TopicPartition
from .rights import Operation, Resource, Right

_LOOK_AGAIN_S = 0.05
_LEAST_WAIT_S = 0.01
T = TypeVar("T")
_admin: Any = _admin_module  # it is typed in part


class RdAdmin:
    """Implements `broker.Admin`. One event loop; any task."""

    def __init__(self, bootstrap_servers: str, options: KafkaOptions) -> None:
        self._name = bootstrap_servers
        self._options = options
        self._contact = Contact(bootstrap_servers, options)
        self._client: Any = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        await connected(self._name, self._options, lambda: self._connect(loop))

    async def topics(self) -> Mapping[str, int]:
        return counts(await self._in_time("list its topics", self._cluster))

    async def create_topics(self, topics: Sequence[Topic]) -> frozenset[str]:
        present = await self.topics()
        missing = [
            _admin.NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
            for topic in topics
            if topic.name not in present
        ]
        if not missing:
            return frozenset()
        limit_s = self._options.send_timeout_s
        made = self._client.create_topics(missing, operation_timeout=limit_s, request_timeout=limit_s)
        created, faults, refused = set(), [], []
        for name, done in made.items():
            try:
                await asyncio.wrap_future(done)
                created.add(name)
            except RDKAFKA_FAULTS as err:
                error = error_of(err)
                code = None if error is None else error.code()
                if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
                    refused.append(Right(Operation.CREATE, Resource.TOPIC, name))
                elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                    faults.append(f"{name!r}: {in_words(err)}")
        await self._in_time("show the new topics", lambda left_s: self._visible(created, left_s))
        if refused:
            raise Refusals(self._name, self._options.security).of(refused, "create topics that are missing")
        if faults:
            raise BrokerError(f"Kafka at {self._name} did not create topic {'; '.join(faults)}")
        return frozenset(created)

    async def committed(self, group: str) -> Mapping[TopicPartition, Committed]:
        async with asking(self._name, self._options) as admin:
            return await admin.committed(group)

    async def missing(self, rights: Iterable[Right]) -> NotAllowed | None:
        # librdkafka has no request for the rights on topics that are not there yet.
        async with asking(self._name, self._options) as admin:
            return await admin.missing(rights)

    async def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        wanted = frozenset(partitions)

        async def ask(left_s: float) -> Mapping[TopicPartition, Bounds]:
            check_exist(await self._cluster(left_s), wanted, self._name)
            first = await self._offsets(wanted, _admin.OffsetSpec.earliest(), left_s)
            end = await self._offsets(wanted, _admin.OffsetSpec.latest(), left_s)
            return {place: Bounds(first[place], end[place]) for place in wanted}

        try:
            return await self._in_time("say what partitions hold", ask)
        except NoSuchPlace as err:
            topics = sorted({each.topic for each in wanted})
            raise await or_hidden(err, self._name, self._options, Operation.DESCRIBE, topics) from None

    async def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # Its end joins threads of librdkafka: not here, where others would wait for that.
            await asyncio.to_thread(_let_go, [client])

    def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        settings = connection(self._options, self._name, loop)
        self._client = _admin.AdminClient(settings | {"error_cb": self._contact.heard})
        try:
            self._contact.cluster(self._client)
        except BaseException:
            self._client = None
            raise

    async def _cluster(self, left_s: float) -> Any:
        return await asyncio.to_thread(self._client.list_topics, timeout=left_s)

    async def _visible(self, names: set[str], left_s: float) -> None:
        """Wait until each partition has a leader that knows it is one."""
        ends_at = asyncio.get_running_loop().time() + left_s
        while names and not await self._led(names, left_s):
            if asyncio.get_running_loop().time() > ends_at:
                raise TimeoutError("they have no leaders yet")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _led(self, names: set[str], left_s: float) -> bool:
        known = (await self._cluster(left_s)).topics
        wanted = []
        for name in names:
            partitions = known[name].partitions if name in known else {}
            if not partitions or any(each.leader < 0 for each in partitions.values()):
                return False
            wanted += [TopicPartition(name, partition) for partition in partitions]
        try:
            await self._offsets(wanted, _admin.OffsetSpec.latest(), left_s)
        except RDKAFKA_FAULTS as err:
            if (error := error_of(err)) is None or not passes(error):
                raise
            return False
        return True

    async def _offsets(self, partitions: Iterable[TopicPartition], which: Any, left_s: float) -> Any:
        asked = {KafkaPartition(*partition): which for partition in partitions}
        if not asked:
            return {}
        answers = self._client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=left_s
        )
        return {
            TopicPartition(each.topic, each.partition): (await asyncio.wrap_future(answer)).offset
            for each, answer in answers.items()
        }

    async def _in_time(self, what: str, ask: Callable[[float], Awaitable[T]]) -> T:
        """Ask, again after faults that pass by themselves, within the time of a send."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._options.send_timeout_s
        while True:
            left_s = max(_LEAST_WAIT_S, ends_at - loop.time())
            try:
                return await ask(left_s)
            except RDKAFKA_FAULTS as err:
                error = error_of(err)
                if error is None or not passes(error) or loop.time() + self._options.retry_backoff_s >= ends_at:
                    raise BrokerError(f"Kafka at {self._name} could not {what}: {in_words(err)}") from err
            await asyncio.sleep(self._options.retry_backoff_s)


def _let_go(clients: list[Any]) -> None:
    clients.clear()
