"""The reply index: replies of earlier runs in Redis, so that a redelivered request is answered without another run.

Redis may be lost at any time without losing a request: then redelivered requests run again, and a metric says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from producer_sdk.forms import name_of

from .fingerprint import fingerprint
from .redis_client import PATIENCE_S
from .work import Outcome, Work

PAUSE_S = 5.0  # a Redis that is lost is asked again so often
MAX_VALUE_BYTES = 256 << 10  # a longer reply is not kept
# Much is asked for and stored in shares, each far from PATIENCE_S, with a look at the clock in between: what takes its
# time because it is much is no failure.
SHARE_KEYS = 32
SHARE_BYTES = 4 << 20
ENOUGH_S = PATIENCE_S / 2
# A pipeline costs twenty times as much: an answer for each reply.
STORE = "for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[1]) end return 1"
Item = TypeVar("Item")
_log = logging.getLogger("headrace.worker")


class Stored(Struct, array_like=True, frozen=True):
    """A reply that was given: of which inputs, in which form, and its bytes."""

    fingerprint: bytes
    form: str
    value: bytes


class ReplyIndex:
    """Remembers the results of one model version for `ttl_s`. One event loop touches it; nothing raises.

    Keyed by group, model version and request id. An entry answers a request only where inputs, parameters and form are
    the same too: an id that is used again for something else is run. After the first question without an answer nobody
    asks but `run`, every `PAUSE_S`, so that no request waits twice.

    Attributes:
        up: whether Redis answered the last question.
        hits: requests answered from it.
        failures: questions that Redis did not answer.
    """

    def __init__(self, redis: Any, group: str, version: str, ttl_s: float) -> None:
        self._redis = redis
        self._namespace = f"{group}:{version}"
        self._ttl_ms = max(1, round(ttl_s * 1000))
        self._lost = asyncio.Event()
        self.up = True
        self.hits = 0
        self.failures = 0

    async def run(self) -> None:
        """Ask Redis at the start, and while it is lost, until cancelled."""
        while True:
            if await self._answered(self._probe()):
                if not self.up:
                    _log.info("The reply index of %s is back", self._namespace, extra={"action": "reply_index_back"})
                self.up = True
                self._lost.clear()
                await self._lost.wait()
            await asyncio.sleep(PAUSE_S)

    async def find(self, works: Sequence[Work]) -> list[Stored | None]:
        """What was answered before, for each request; sets the fingerprints of those whose results are to be kept."""
        if not self.up:
            return [None] * len(works)
        for work in works:
            work.fingerprint = fingerprint(work.request) + _place(work)
        values: list[bytes | None] = []
        await self._answered(self._read([self._key(work.request.id) for work in works], values))
        found = [_decode(value, work) for value, work in zip_longest(values, works)]
        self.hits += sum(each is not None for each in found)
        return found

    async def store(self, outcomes: Sequence[Outcome]) -> None:
        """Remember results before they are published: a worker that ends in between need not run them again."""
        entries = [
            (self._key(each.id), msgspec.msgpack.encode(Stored(each.fingerprint, name_of(each.form), value)))
            for each in outcomes
            if (value := each.outgoing.value) is not None and len(value) <= MAX_VALUE_BYTES
        ]
        if entries and self.up:
            await self._answered(self._write(entries))

    async def _read(self, keys: Sequence[str], values: list[bytes | None]) -> None:
        """Append what is stored under the first of the keys, as many as there is time for."""
        for share in _shares(keys, lambda key: 1, SHARE_KEYS):
            values += await self._redis.mget(share)

    async def _write(self, entries: Sequence[tuple[str, bytes]]) -> None:
        for share in _shares(entries, lambda entry: len(entry[1]), SHARE_BYTES):
            keys, values = zip(*share, strict=True)
            await self._redis.eval(STORE, len(keys), *keys, self._ttl_ms, *values)

    async def _probe(self) -> None:
        # A write, which a Redis that is full or a replica refuses; and by the command that `store` uses.
        await self._write([(f"{self._namespace}:probe", b"")])

    async def _answered(self, question: Awaitable[None]) -> bool:
        """Whether Redis answers it in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await question
        except Exception as err:  # noqa: BLE001 - of redis-py, sockets, TLS or uvloop: none may cost more than a run
            self._note_failure(err)
            return False
        return True

    def _note_failure(self, err: Exception) -> None:
        self.failures += 1
        if self.up:
            _log.warning("The reply index of %s is lost, so that redelivered requests run again: %s", self._namespace,
                         str(err) or "no answer in time", extra={"action": "reply_index_lost"})  # fmt: skip
        self.up = False
        self._lost.set()

    def _key(self, id: str) -> str:
        return f"{self._namespace}:reply:{id}"


def _shares(items: Sequence[Item], weight: Callable[[Item], int], most: int) -> Iterator[Sequence[Item]]:
    """Parts of the items, none heavier than `most`, until half of the patience is used up."""
    ends = time.monotonic() + ENOUGH_S
    share: list[Item] = []
    room = most
    for item in items:
        if share and weight(item) > room:
            yield share
            if time.monotonic() > ends:
                return
            share, room = [], most
        share.append(item)
        room -= weight(item)
    if share:
        yield share


def _place(work: Work) -> bytes:
    """Where its answer goes: one that was stored elsewhere, or in a record, is none for it."""
    request = work.request
    return b"" if request.store is None else str(request.store).encode()


def _decode(value: bytes | None, work: Work) -> Stored | None:
    if value is None:
        return None
    try:
        stored = msgspec.msgpack.decode(value, type=Stored)
    except msgspec.MsgspecError:
        return None  # somebody else's
    same = stored.fingerprint == work.fingerprint and stored.form == name_of(work.request.form)
    return stored if same else None
