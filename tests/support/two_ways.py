"""The same bytes down both ways of the gateway: the one that remembers heads and bodies, and the one that reads all."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest import mock

from prompt_broker import PromptBroker
from uvicorn.server import ServerState

from gateway.app import App
from gateway.heads import Head, KnownHeads
from gateway.listen import HttpServer
from gateway.parts import Parts
from gateway.protocol import ConnectionLimits, Protocol
from gateway.settings import GatewaySettings
from producer_sdk import _json_bodies
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.tensors import Array, Datatype
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

LIMITS = ConnectionLimits(head_timeout_s=10.0, max_connections=100)
SETTINGS = GatewaySettings(max_body_bytes=4096, max_deadline_s=60.0, max_inflight=20)
FRESH_ID = re.compile(rb"(?<=headrace-request-id: )[A-Za-z0-9_-]{22}(?=\r\n)")
TURNS = 50
Answers = tuple[bytes, bool]


class NothingKnown(KnownHeads):
    def learn(self, data: bytes, head: Head, body_bytes: int) -> None:
        pass


class Slow(Protocol):
    """Has the parser read all, and a task answer all."""

    _heads = NothingKnown()

    def _decide(self) -> None:
        self._decide_now()

    def _decide_now(self) -> None:
        with mock.patch.object(self.app, "begin", return_value=False):
            super()._decide_now()


class Wire(asyncio.Transport):
    """The transport of a connection, without a network: keeps what was written."""

    def __init__(self, kind: type[Protocol], app: App, state: ServerState) -> None:
        self._near, self._far = socket.socketpair()
        super().__init__({"socket": self._near})
        self.written = bytearray()
        self.is_closed = self.is_lost = False
        config = HttpServer(app, LIMITS).config
        config.load()
        self.protocol = kind(LIMITS, config, state, {})
        self.protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed, "written after the end"
        self.written += data

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._lose)

    def _lose(self) -> None:
        self.protocol.connection_lost(None)
        self.is_lost = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def end(self) -> None:
        self.close()
        self._near.close()
        self._far.close()


class Gateway:
    """One gateway with a model `mlp` that doubles; belongs to the event loop that runs it."""

    def __init__(self, app: App, parts: Parts) -> None:
        self._app = app
        self._parts = parts
        self._state = ServerState()
        self.fast = type("Fast", (Protocol,), {"_heads": KnownHeads()})

    async def ask(self, pieces: Sequence[bytes], *, is_slow: bool, patiently: bool = False) -> Answers:
        """All that is written to a connection that gets these pieces, and whether it was closed.

        `patiently`: each piece after the answers to those before.
        """
        wire = self._connect(is_slow=is_slow)
        protocol = wire.protocol
        for piece in pieces:
            if not wire.is_closed:
                protocol.data_received(piece)
                await (self._until_quiet(protocol) if patiently else asyncio.sleep(0))
        await self._until_quiet(protocol)
        answers = told(bytes(wire.written)), wire.is_closed
        await self._end(wire)
        return answers

    def _connect(self, *, is_slow: bool) -> Wire:
        return Wire(Slow if is_slow else self.fast, self._app, self._state)

    async def _end(self, wire: Wire) -> None:
        wire.end()
        await turns(lambda: wire.is_lost and not wire.protocol.tasks)
        if self._parts.admission.inflight < SETTINGS.max_inflight:
            self._nothing_held()

    def _nothing_held(self) -> None:
        door = self._parts.admission
        assert (door.inflight, door.inflight_by_model, door.body_bytes) == (0, {}, 0)

    async def unread(self, asked: bytes, *, hangs_up: bool) -> Wire:
        """The connection of a caller that reads nothing for a while, or goes away meanwhile."""
        wire = self._connect(is_slow=False)
        wire.protocol.pause_writing()
        wire.protocol.data_received(asked)
        await turns(lambda: bool(wire.protocol.tasks))
        self._nothing_held()
        assert not wire.written
        if hangs_up:
            wire.close()
        else:
            wire.protocol.resume_writing()
        await turns(lambda: not wire.protocol.tasks)
        await self._end(wire)
        return wire

    def counts(self) -> dict[str, float]:
        """Requests counted, by their labels."""
        lines = self._parts.metrics.text().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if "_requests_total{" in line}

    @contextmanager
    def full(self) -> Iterator[None]:
        """It holds as many requests as it may."""
        door = self._parts.admission
        for _ in range(SETTINGS.max_inflight):
            door.enter()
        yield
        for _ in range(SETTINGS.max_inflight):
            door.leave()

    async def slowly(self, pieces: Sequence[bytes], *, patiently: bool = False) -> Answers:
        with (
            mock.patch.object(_json_bodies._alike, "read", return_value=None),
            mock.patch.object(_json_bodies, "_describe", return_value=None),
            mock.patch("gateway.signature.Fitting.check", check_each),
        ):
            return await self.ask(pieces, is_slow=True, patiently=patiently)

    async def _until_quiet(self, protocol: Protocol) -> None:
        """Until nothing is answered any more; a body that never comes to its end is not waited for long."""
        if protocol.running is not None and protocol.running.more_body:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        await turns(lambda: protocol.running is None or protocol.running.more_body)


async def turns(are_over: Callable[[], bool]) -> None:
    for _ in range(5000):
        if are_over():
            return
        await asyncio.sleep(0 if _ < TURNS else 0.001)
    raise AssertionError("it did not come to an end")


def check_each(self: Any, announcement: Announcement, ask: Any) -> None:
    from gateway.signature import check_inputs, check_outputs

    check_inputs(announcement, ask.inputs)
    check_outputs(announcement, ask.outputs)


def told(written: bytes) -> bytes:
    """Without the ids that were made up on the way."""
    for id in FRESH_ID.findall(written):
        written = written.replace(id, b"fresh")
    return written


def double(inputs: dict[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"] * 2}


@asynccontextmanager
async def gateway_both_ways() -> AsyncIterator[Gateway]:
    broker, parts = PromptBroker(), Parts(SETTINGS)
    # The model is announced once, by us: what is said again, or not for long, would change answers in the midst of a
    # comparison. With such a heartbeat nobody believes the worker.
    with (
        mock.patch("producer_sdk.testing._HEARTBEAT_S", 3600.0),
        mock.patch("producer_sdk.announcements.HEARTBEATS_UNTIL_STALE", 3600),
    ):
        async with FakeWorker(broker, "mlp", double), parts.open(broker) as app:
            await announce(broker, app)
            yield Gateway(app, parts)


async def announce(broker: MemoryBroker, app: Any) -> None:
    said = Announcement(
        "w0",
        "mlp",
        ("1",),
        ModelState.READY,
        int(time.time() * 1000),
        60.0,
        inputs=(TensorAnnouncement("x", Datatype.FP32, (2,)),),
        outputs=(TensorAnnouncement("y", Datatype.FP32, (2,)),),
        max_batch_size=4,
    )
    producer = broker.producer()
    await producer.start()
    await (await producer.publish(Topics().control, Outgoing(said.key, encode_announcement(said))))
    directory = app.begin.__self__.inference._models._directory
    await turns(lambda: (view := directory.get("mlp")) is not None and bool(view.newest.inputs))
