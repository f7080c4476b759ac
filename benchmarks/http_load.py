"""A load generator that speaks HTTP/1.1, in a process of its own: `python -m benchmarks.http_load SPEC_FILE`.

Raw sockets that stay open, one request at a time on each, nothing parsed but the status and the length. Closed: every
connection sends the next request when its answer has come. Open: requests are due by a Poisson schedule and take the
next free connection, a new one where the server has closed all idle ones; a latency counts from when the request was
due. Writes one `Summary` as JSON, or the sentence of a `TooSlow`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from benchmarks.alarm import Alarm
from benchmarks.latencies import Load, Summary, TooSlow, poisson, summary
from headrace.event_loop import run

PATIENCE_S = 10.0
HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
OK = b"200"


class HttpSpec(Struct, frozen=True):
    """What to send.

    Attributes:
        bodies: taken in turn.
        connections: open at once; of an open load the most that are.
        per_s: arrivals a second; None keeps every connection busy.
        seconds: measured, after `warm_up_s`.
        limit_s: later answers are misses.
        headers: further lines of the head, each with its line end.
    """

    host: str
    port: int
    path: str
    content_type: str
    bodies: tuple[bytes, ...]
    connections: int
    seconds: float
    per_s: float | None = None
    warm_up_s: float = 1.0
    limit_s: float = float("inf")
    seed: int = 7
    headers: str = ""

    def requests(self) -> list[bytes]:
        """Each body with its head."""
        head = f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: {self.content_type}\r\n{self.headers}"
        return [head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in self.bodies]


class Connection(asyncio.Protocol):
    """One connection: `ask` writes a request, `HttpLoad.answered` hears of the answer or of the connection's end."""

    def __init__(self, load: HttpLoad) -> None:
        self._load = load
        self._buffer = b""
        self._asked: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, number: int, request: bytes) -> None:
        self._asked, self._buffer = number, b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(HEAD_END)
        if end < 0 or self._asked is None:
            return
        head = self._buffer[:end].lower()
        at = head.find(LENGTH)
        if at < 0:
            raise ValueError(f"an answer without a length: {head[:200]!r}")
        length = int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0])
        if len(self._buffer) >= end + len(HEAD_END) + length:
            number, self._asked = self._asked, None
            self._load.answered(self, number, head[9:12] == OK)

    def connection_lost(self, error: Exception | None) -> None:
        if self._asked is not None:
            self._load.answered(None, self._asked, False)
        self._load.lost(self)

    def close(self) -> None:
        self._transport.close()


class HttpLoad:
    """One load. Belongs to one event loop."""

    def __init__(self, spec: HttpSpec) -> None:
        self._spec = spec
        self._requests = spec.requests()
        self._free: deque[Connection] = deque()
        self._waiting: deque[int] = deque()
        self._due: list[float] = []
        self._sent: list[float] = []
        self._done: list[float | None] = []
        self._errors = self._out = self._lost = 0
        self._ends = float("inf")
        self._idle = asyncio.Event()
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self) -> Summary:
        """Raises OSError when nobody listens, ConnectionError when a closed load lost every connection, TooSlow."""
        spec = self._spec
        for _ in range(spec.connections):
            self.use(await self._open())
        began, cpu_s = time.perf_counter(), time.process_time()
        total_s = spec.warm_up_s + spec.seconds
        self._ends = began + total_s
        if spec.per_s is None:
            while self._free:
                self.ask_next(time.perf_counter())
            await asyncio.sleep(total_s)
        else:
            await self._follow([began + each for each in poisson(spec.per_s, total_s, spec.seed)])
        await self._await_answers()
        share = (time.process_time() - cpu_s) / (time.perf_counter() - began)
        for connection in self._free:
            connection.close()
        load = Load.of(self._due, self._sent, self._done, began + spec.warm_up_s, self._errors, share)
        return summary(load, spec.seconds, spec.limit_s)

    async def _open(self) -> Connection:
        spec, loop = self._spec, asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), spec.host, spec.port)
        return connection

    def use(self, connection: Connection) -> None:
        """One more connection to ask on: what waits goes first."""
        self._free.append(connection)
        if self._waiting:
            self._ask(self._waiting.popleft())

    def answered(self, connection: Connection | None, number: int, good: bool) -> None:
        """An answer has come, or, without a connection, will not."""
        now = time.perf_counter()
        self._out -= 1
        self._errors += not good
        if connection is not None:
            self._done[number] = now
            self.use(connection)
        if connection is not None and self._spec.per_s is None and now < self._ends:
            self.ask_next(now)
        elif self._out == 0:
            self._idle.set()

    def lost(self, connection: Connection) -> None:
        """A connection has ended."""
        self._lost += 1
        if connection in self._free:
            self._free.remove(connection)
        if self._lost >= self._spec.connections and self._spec.per_s is None:
            self._idle.set()
        if self._waiting:
            self._replace_lost()

    async def _follow(self, due: list[float]) -> None:
        with Alarm() as alarm:
            for moment in due:
                while (now := time.perf_counter()) < moment:
                    await alarm.until(moment)
                self.ask_next(moment, now)

    def ask_next(self, due: float, now: float | None = None) -> None:
        """The next request: on a free connection, else once one is free."""
        number = len(self._due)
        self._due.append(due)
        self._sent.append(due if now is None else now)
        self._done.append(None)
        self._out += 1
        if self._free:
            self._ask(number)
        else:
            self._waiting.append(number)
            self._replace_lost()

    def _ask(self, number: int) -> None:
        self._free.popleft().ask(number, self._requests[number % len(self._requests)])

    def _replace_lost(self) -> None:
        """Servers close what is idle for seconds, which at a small rate is every connection of an open load."""
        if self._lost > 0 and self._spec.per_s is not None:
            self._lost -= 1
            opening = asyncio.get_running_loop().create_task(self._open_again())
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open_again(self) -> None:
        try:
            self.use(await self._open())
        except OSError:
            self._lost += 1
            if self._waiting:
                self.answered(None, self._waiting.popleft(), False)

    async def _await_answers(self) -> None:
        if self._lost >= self._spec.connections and self._spec.per_s is None:
            raise ConnectionError(f"all {self._lost} connections were closed by the server")
        if self._out:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), PATIENCE_S)
            except TimeoutError:
                pass  # those without an answer count as such


def main(spec_file: str) -> int:
    spec = msgspec.msgpack.decode(Path(spec_file).read_bytes(), type=HttpSpec)

    async def measure() -> Summary:
        return await HttpLoad(spec).run()

    try:
        found = msgspec.to_builtins(run(measure()))
    except TooSlow as sentence:
        found = str(sentence)
    # msgspec writes an infinite latency as null, Python's own JSON as what it is.
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
