"""CPU microseconds a request of the gateway and the SDK in it, without sockets, Kafka and worker.

`python -m benchmarks.gateway_cpu [--form json|binary] [--apart] [--repeats N]`

The gateway's own objects, from a connection's bytes to a published record and from a reply's record back to the bytes
of an answer. In the socket's place is a transport that sends the next request of a connection in the turn of the event
loop after its answer, in Kafka's place a broker that replies to all that was published in a turn at once. Of all
repeats the least counts, since whatever else the machine does can only add to it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from uvicorn.server import ServerState

from benchmarks.subjects import Subject
from benchmarks.tensors_over_http import BinaryOipForm, HttpForm, OipForm, bodies
from gateway.listen import HttpServer
from gateway.parts import Parts
from gateway.protocol import ConnectionLimits, Protocol
from gateway.settings import GatewaySettings
from producer_sdk._memory_producer import MemoryAcknowledged
from producer_sdk._read_record import ReadRecord
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.broker import Outgoing, Placed, TopicPartition
from producer_sdk.memory import MemoryBroker
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.tensors import Datatype, tensor_ext
from producer_sdk.topics import Topics
from producer_sdk.wire import encode_reply

CONNECTIONS, REQUESTS = 64, 1280
WIDTH, OUTPUTS = 384, 10
TOPICS = Topics()
REPLIES = TopicPartition(TOPICS.replies, 0)
FORMS: Mapping[str, HttpForm] = {"json": OipForm(), "binary": BinaryOipForm()}
LIMITS = ConnectionLimits(10.0, 10_000)
ID = b"i" * 22


class Replying(MemoryBroker):
    """Gives, for each record that is published, a reply at the next poll."""

    def __init__(self) -> None:
        super().__init__()
        output = tensor_ext(Datatype.FP32, (1, OUTPUTS), np.linspace(-1, 1, OUTPUTS, dtype="<f4").tobytes())
        parameters = {"batch_rows": 64, "queue_ms": 1.25, "run_ms": 0.5}
        self._begin, self._end = encode_reply(ID.decode(), "mlp", "1", {"y": output}, parameters).split(ID)
        self._records: list[ReadRecord] = []
        self._news = asyncio.Event()
        self._acknowledged = MemoryAcknowledged(Placed("", 0, 0))
        self._polled = REPLIES

    def producer(self) -> Any:
        producer: Any = super().producer()
        producer.publish_now = self._publish_now
        return producer

    def reader(self, partitions: frozenset[TopicPartition], *, from_end: bool) -> Any:
        reader: Any = super().reader(partitions, from_end=from_end)
        (partition,) = partitions
        if partition.topic == REPLIES.topic:
            self._polled, reader.poll = partition, self._poll
        return reader

    def _publish_now(self, topic: str, record: Outgoing, partition: int) -> MemoryAcknowledged:
        if not self._records:
            self._acknowledged = MemoryAcknowledged(Placed("", 0, 0))
            self._news.set()
        value = b"".join((self._begin, record.key or b"", self._end))
        self._records.append(ReadRecord(REPLIES.topic, 0, 0, 0, record.key, value, ()))
        return self._acknowledged

    async def _poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[ReadRecord]]:
        if not self._records:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
        records, self._records = self._records, []
        return {self._polled: records}


class Line(asyncio.Transport):
    """A connection's transport: each answer sends its next request, as long as any are `left`."""

    left, answered, done = 0, list["Line"](), asyncio.Event()

    def __init__(self, requests: list[list[bytes]], app: Any, state: ServerState) -> None:
        super().__init__()
        config = HttpServer(app, LIMITS).config
        config.load()
        self._requests = requests
        self.protocol = Protocol(LIMITS, config, state, {})
        self.protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert bytes(data[:12]) == b"HTTP/1.1 200", data
        Line.left -= 1
        if not Line.left:
            Line.done.set()
        if not Line.answered:
            asyncio.get_running_loop().call_soon(self.send)
        Line.answered.append(self)

    def send(self) -> None:
        lines, Line.answered = Line.answered, []
        for line in lines[: max(Line.left, 0)]:
            for piece in self._requests[Line.left % len(self._requests)]:
                line.protocol.data_received(piece)

    def is_closing(self) -> bool:
        return False


def requests_of(form: HttpForm, *, apart: bool) -> list[list[bytes]]:
    """Whole requests, as `http_load` sends them; `apart`: head and body come one after another."""
    random = np.random.default_rng(1)
    subject = Subject("mlp", Path(), 64, {"x": random.standard_normal((512, WIDTH), dtype=np.float32)})
    lines = "".join(f"{name}: {value}\r\n" for name, value in form.headers(subject).items())
    head = f"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nContent-Type: {form.content_type}\r\n{lines}"
    requests = [(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body), body) for body in bodies(subject, form)]
    return [list(request) if apart else [b"".join(request)] for request in requests]


async def announce(broker: Replying) -> None:
    admin, producer = broker.admin(), broker.producer()
    await ensure_system_topics(admin, TOPICS)
    await admin.create_topics(model_topics(TOPICS, "mlp", partitions=8))
    row, output = (TensorAnnouncement(name, Datatype.FP32, (size,)) for name, size in (("x", WIDTH), ("y", OUTPUTS)))
    now_ms = int(time.time() * 1000)
    said = Announcement("w0", "mlp", ("1",), ModelState.READY, now_ms, 60.0, inputs=(row,), outputs=(output,))
    await producer.start()
    await (await producer.publish(TOPICS.control, Outgoing(said.key, encode_announcement(said))))


async def measure(form: HttpForm, repeats: int, *, apart: bool) -> float:
    """Least CPU microseconds a request."""
    broker, state, least = Replying(), ServerState(), float("inf")
    requests = requests_of(form, apart=apart)
    await announce(broker)
    async with Parts(GatewaySettings()).open(broker) as app:
        lines = [Line(requests, app, state) for _ in range(CONNECTIONS)]
        for _ in range(repeats):
            Line.left, Line.answered, Line.done = REQUESTS, lines[:], asyncio.Event()
            began = time.process_time()
            lines[0].send()
            await Line.done.wait()
            least = min(least, time.process_time() - began)
            await asyncio.sleep(0.01)
    return 1e6 * least / REQUESTS


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.gateway_cpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--form", choices=FORMS, default="json")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--apart", action="store_true", help="head and body of a request in two segments")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(f"{runner.run(measure(FORMS[given.form], given.repeats, apart=given.apart)):8.2f} us  {given.form}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
