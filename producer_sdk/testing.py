"""What users need to test their producers without Kafka and without a worker.

broker = MemoryBroker()
async with FakeWorker(broker, "iris", lambda inputs: {"y": inputs["x"] * 2}), Client(broker) as client:
    reply = await client.infer("iris", {"x": np.ones((1, 4))})
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .announcements import Announcement, ModelState, encode_announcement
from .broker import Broker, BrokerError, CommitRefused, Committed, Outgoing, Record, TopicPartition
from .claim_keys import KEPT_MS
from .dataref import DataRef
from .errors import HeadraceError, InferenceFailed, InvalidRequest, PayloadTooLarge
from .forms import error_value, headers_of, name_of, result_value
from .memory import MemoryBroker
from .model_topics import model_topics
from .records import decode_record, decode_stored
from .system_topics import ensure_system_topics
from .tensors import Array, Tensor
from .topics import ReplyTo, Topics, derived_id, new_id
from .wire import Refused, Request, Undecodable

if TYPE_CHECKING:
    from .payloads import Payloads

__all__ = ["Answer", "FakeWorker", "MemoryBroker"]

Answer = Callable[[dict[str, Array]], Mapping[str, Any]]

_POLL_S = 0.5
_MAX_RECORDS = 64
_HEARTBEAT_S = 60.0
_STORE_S = 30.0
_MAX_STORED_BYTES = 1 << 30


class FakeWorker:
    """Answers the requests of one model, in order, one at a time. One event loop.

    Args:
        broker: MemoryBroker, or any other.
        model: its topics are created.
        answer: inputs by name -> outputs by name; an exception that it raises becomes the error reply, as does an
            exception given in its place.
        version: version that it says it serves.
        prefix: of the topics.
        s3: where it fetches inputs that are stored, and puts results that are too large or are to be stored.

    Attributes:
        received: the requests answered so far.
    """

    def __init__(
        self,
        broker: Broker,
        model: str,
        answer: Answer | Exception,
        *,
        version: str = "1",
        prefix: str = "headrace",
        s3: Payloads | None = None,
    ) -> None:
        self._payloads = s3
        self.received: list[Request] = []
        self._topics = Topics(prefix)
        self._model = model
        self._version = version
        self._answer = answer
        self._name = f"fake-{new_id()[:8]}"
        self._admin, self._producer = broker.admin(), broker.producer()
        lanes = frozenset(self._topics.lanes(model))
        self._consumer = broker.member(self._topics.group(model), lanes, self)
        self._assigned = asyncio.Event()
        self._leaving = False
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FakeWorker:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        await self._announce(None)
        await self._stop()
        if self._serving is not None:
            await self._serving

    async def _start(self) -> None:
        await self._admin.start()
        await ensure_system_topics(self._admin, self._topics)
        await self._admin.create_topics(model_topics(self._topics, self._model, partitions=2))
        await self._producer.start()
        await self._consumer.start()
        self._serving = asyncio.create_task(self._serve(), name=f"fake-worker-{self._model}")
        await self._assigned.wait()
        await self._announce(self._announcement())

    async def _stop(self) -> None:
        self._leaving = True
        await self._consumer.stop()
        await self._producer.stop()
        await self._admin.stop()

    async def _serve(self) -> None:
        try:
            announced_s = time.monotonic()
            while not self._leaving:
                if time.monotonic() - announced_s > _HEARTBEAT_S:
                    await self._announce(self._announcement())
                    announced_s = time.monotonic()
                for partition, records in (await self._consumer.poll(_MAX_RECORDS, _POLL_S)).items():
                    await self._take(TopicPartition(*partition), records)
        except BrokerError:
            if not self._leaving:
                self._assigned.set()
                raise

    async def _take(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        for record in records:
            await self._handle(record)
        try:
            await self._consumer.commit({partition: Committed(records[-1].offset + 1)})
        except CommitRefused:
            pass  # another member has the partition now and answers again

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None:
        """Called by the group."""
        self._assigned.set()

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Called by the group; what is not committed is answered by the next owner."""

    async def _handle(self, record: Record) -> None:
        fallback_id = derived_id(record.topic, record.partition, record.offset)
        try:
            request = decode_record(record.value, record.headers, fallback_id, record.timestamp)
        except Undecodable as err:
            request = Refused(fallback_id, err)
        if isinstance(request, Request):
            request = await self._whole(request)
        if isinstance(request, Request):
            self.received.append(request)
        where = request.reply_to or ReplyTo(self._topics.results(self._model), None)
        value = self._reply(request)
        try:
            if request.store is not None:
                value = await self._stored(request, value)
            await self._send(where, request, value)
        except PayloadTooLarge as err:
            short = self._error(request, err) if self._payloads is None else await self._claimed(request, value)
            await self._send(where, request, short)

    async def _whole(self, request: Request) -> Request | Refused:
        """The request with its inputs, wherever they are."""
        if request.ref is None:
            return request
        try:
            if self._payloads is None:
                raise InvalidRequest("this FakeWorker has no store to fetch inputs from: give it s3")
            data = await self._payloads.get(request.ref, budget_s=_STORE_S, max_bytes=_MAX_STORED_BYTES)
            stored = decode_stored(data, request.form, request.id)
        except HeadraceError as err:
            return Refused(request.id, err, request.form, request.reply_to, request.store)
        if isinstance(stored, Refused):
            return Refused(request.id, stored.error, request.form, request.reply_to, request.store)
        return replace(request, inputs=stored.inputs)

    async def _stored(self, request: Request | Refused, value: bytes) -> bytes:
        """The pointer to a reply, which is stored where the request wants it."""
        if self._payloads is None or request.store is None:
            return self._error(request, InvalidRequest("this FakeWorker has no store to put results in: give it s3"))
        place = request.store.key(f"{request.id}.{name_of(request.form)}")
        put = await self._payloads.put(place.bucket, place.key, value, only_new=True, budget_s=_STORE_S)
        return self._pointer(request, put.ref)

    async def _claimed(self, request: Request | Refused, value: bytes) -> bytes:
        """The pointer to a reply that is too large for a record."""
        assert self._payloads is not None
        expires_ms = int(time.time() * 1000) + KEPT_MS
        return self._pointer(request, await self._payloads.claim(value, expires_ms=expires_ms, budget_s=_STORE_S))

    def _pointer(self, request: Request | Refused, ref: DataRef) -> bytes:
        return result_value(request.form, request.id, self._model, self._version, {}, {}, ref)

    async def _send(self, where: ReplyTo, request: Request | Refused, value: bytes) -> None:
        record = Outgoing(request.id.encode(), value, headers_of(request.form))
        await (await self._producer.publish(where.topic, record, where.partition))

    def _reply(self, request: Request | Refused) -> bytes:
        if isinstance(request, Refused):
            return self._error(request, request.error)
        try:
            return self._result(request, self._outputs(request))
        except HeadraceError as err:
            return self._error(request, err)
        except Exception as err:  # noqa: BLE001 - the user's answer may raise anything
            return self._error(request, InferenceFailed(f"{type(err).__name__}: {err}"))

    def _outputs(self, request: Request) -> dict[str, Tensor]:
        if isinstance(self._answer, Exception):
            raise self._answer
        outputs = self._answer({name: tensor.to_array() for name, tensor in request.inputs.items()})
        return {name: Tensor.from_array(array) for name, array in outputs.items()}

    def _result(self, request: Request, outputs: dict[str, Tensor]) -> bytes:
        return result_value(request.form, request.id, self._model, self._version, outputs, {})

    def _error(self, request: Request | Refused, error: HeadraceError) -> bytes:
        return error_value(request.form, request.id, self._model, self._version, error)

    def _announcement(self) -> Announcement:
        return Announcement(
            worker=self._name,
            model=self._model,
            versions=(self._version,),
            state=ModelState.READY,
            at_ms=int(time.time() * 1000),
            heartbeat_s=_HEARTBEAT_S,
        )

    async def _announce(self, announcement: Announcement | None) -> None:
        value = None if announcement is None else encode_announcement(announcement)
        record = Outgoing(self._announcement().key, value)
        await (await self._producer.publish(self._topics.control, record))
