"""A load generator that speaks Kafka: requests by a schedule, or by users in turn, and the time of each reply.

Requests are written as record batches and replies read in hauls, not through the SDK's client, so that one process can
give a worker more than it takes. A latency counts from the moment at which a request was due: what the generator or
the broker holds up is in it.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from msgspec import Struct

from benchmarks.alarm import Alarm
from benchmarks.cluster import FILL_BATCH_BYTES, REQUEST_PARTITIONS
from benchmarks.latencies import Load, Times
from benchmarks.records import Form, WrongReply, check_answers
from benchmarks.subjects import ROWS_KEPT, Subject
from producer_sdk.topics import ReplyTo

POLL_MS = 50
HAUL = 2_000
PATIENCE_S = 10.0  # after the last request was due; what is not answered then is lost to the caller
CHECKED_REPLIES = 32
DIGITS = 12
_MARK = b"benchmark-"


class Target(Struct, frozen=True):
    """Where requests go and replies come from, and how both are written."""

    requests: str
    reply_to: ReplyTo
    form: Form


class Templates:
    """Encoded requests in which only the id changes: encoding each would cost more than sending it."""

    def __init__(self, subject: Subject, target: Target) -> None:
        self._parts = []
        base = 10 ** (DIGITS - 1) // ROWS_KEPT * ROWS_KEPT  # a number decides on the row, and row 0 is here
        for row in range(ROWS_KEPT):
            value = target.form.request(subject, base + row, target.reply_to)
            before, _, after = value.partition(_MARK)
            self._parts.append((before + _MARK, after[DIGITS:]))

    def value(self, number: int) -> bytes:
        """The record of request `number`."""
        before, after = self._parts[number % ROWS_KEPT]
        return b"%b%0*d%b" % (before, DIGITS, number, after)


class KafkaLoad:
    """Connections for loads one after another on one target. Belongs to one event loop.

    `checked` compares the first replies with what the subject's file gives; errors are seen without it, too.
    """

    def __init__(
        self,
        servers: str,
        subject: Subject,
        target: Target,
        *,
        checked: bool = True,
        partitions: int = REQUEST_PARTITIONS,
    ) -> None:
        self._target, self._partitions = target, partitions
        self._templates = Templates(subject, target)
        self._place = TopicPartition(target.reply_to.topic, target.reply_to.partition)
        self._consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="latest", check_crcs=False)
        self._producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", max_batch_size=FILL_BATCH_BYTES)
        self._expected = subject.answers(ROWS_KEPT) if checked else None
        self._first = 0
        self._clear()

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._consumer.start()
        self._consumer.assign([self._place])
        await self._consumer.seek_to_end(self._place)
        await self._consumer.position(self._place)
        self._closing = False
        self._receiver = asyncio.create_task(self._receive(), name="replies of the load")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True  # a getmany that is cancelled leaves aiokafka's consumer in disorder
        await asyncio.gather(self._receiver, return_exceptions=True)
        await self._consumer.stop()
        await self._producer.stop()

    async def by_schedule(self, due_s: Times) -> Load:
        """Send each request at its second of the schedule, ascending from 0, however many are out."""
        self._clear()
        began = time.perf_counter()
        due, sent = (began + due_s).tolist(), 0
        with Alarm() as alarm:
            while sent < len(due):
                now = time.perf_counter()
                until = sent
                while until < len(due) and due[until] <= now:
                    until += 1
                if until > sent:
                    await self._send(due[sent:until])
                    sent = until
                else:
                    await alarm.until(due[sent])
        await self._await_replies()
        return self._load(began)

    async def by_users(self, users: int, seconds: float, spawn_per_s: float = float("inf")) -> Load:
        """So many users, each with one request out, for `seconds` after the last of them has begun.

        `spawn_per_s` of them begin each second. The load's second 0 is when all are there.
        """
        self._clear()
        began = time.perf_counter()
        all_here = began + users / spawn_per_s
        while (now := time.perf_counter()) < all_here + seconds:
            here = users if now >= all_here else min(users, int((now - began) * spawn_per_s) + 1)
            free = here - (len(self._due) - self._replies)
            if free > 0:
                await self._send([now] * free)
            else:
                await self._wait_for_a_reply()
        await self._await_replies()
        return self._load(all_here)

    def _clear(self) -> None:
        self._first = max(self._first + len(getattr(self, "_due", ())), time.time_ns() // 1000 % 10**DIGITS)
        self._due: list[float] = []
        self._sent: list[float] = []
        self._done: list[float | None] = []
        self._kept: list[bytes] = []
        self._replies = self._errors = self._turn = 0
        self._good = b""
        self._woken = asyncio.Event()
        self._cpu_s = time.process_time()

    async def _send(self, due: list[float]) -> None:
        """Write requests, a batch a turn to one partition: small ones to several would cost a batch each."""
        next_number, now = self._first + len(self._due), time.perf_counter()
        self._due += due
        self._sent += [now] * len(due)
        self._done += [None] * len(due)
        builder = self._producer.create_batch()
        for number in range(next_number, next_number + len(due)):
            key, value = b"%b%0*d" % (_MARK, DIGITS, number), self._templates.value(number)
            if builder.append(key=key, value=value, timestamp=None) is None:
                await self._give(builder)
                builder = self._producer.create_batch()
                builder.append(key=key, value=value, timestamp=None)
        await self._give(builder)

    async def _give(self, builder: object) -> None:
        self._turn += 1
        await self._producer.send_batch(builder, self._target.requests, partition=self._turn % self._partitions)

    async def _receive(self) -> None:
        while not self._closing:
            haul = await self._consumer.getmany(self._place, timeout_ms=POLL_MS, max_records=HAUL)
            now = time.perf_counter()
            for record in haul.get(self._place, ()):
                self._take(record, now)
            self._woken.set()

    def _take(self, record: ConsumerRecord[bytes, bytes], now: float) -> None:
        value = record.value
        assert value is not None
        end = value.find(_MARK) + len(_MARK) + DIGITS
        place = int(value[end - DIGITS : end]) - self._first
        if not 0 <= place < len(self._done) or self._done[place] is not None:
            return  # of an earlier load, or a repeat
        self._done[place] = now
        self._replies += 1
        if len(self._kept) < CHECKED_REPLIES:
            self._learn(value, end)
        elif not value.startswith(self._good, end):
            self._errors += 1

    def _learn(self, value: bytes, end: int) -> None:
        """Read one of the first replies in full; the others must go on after the id as a good one does."""
        try:
            self._target.form.answer(value)
        except WrongReply:
            self._errors += 1
            return
        self._kept.append(value)
        self._good = self._target.form.good(value, end)

    async def _wait_for_a_reply(self) -> None:
        self._woken.clear()
        await self._woken.wait()
        if self._receiver.done():
            self._receiver.result()

    async def _await_replies(self) -> None:
        ends = time.perf_counter() + PATIENCE_S
        while self._replies < len(self._due) and time.perf_counter() < ends:
            await self._wait_for_a_reply()

    def _load(self, zero: float) -> Load:
        cpu_s, now = time.process_time() - self._cpu_s, time.perf_counter()
        if self._expected is not None:
            check_answers([self._target.form.answer(value) for value in self._kept], self._expected)
        return Load.of(self._due, self._sent, self._done, zero, self._errors, cpu_s / (now - self._due[0]))
