"""Peers over HTTP, one after another, and headrace's gateway before and after them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.gateway import variant_for
from benchmarks.latencies import Summary, TooSlow
from benchmarks.over_http import Endpoint, headrace_over_http
from benchmarks.peers.catalogue import HttpPeer, inputs_of, wait_ms
from benchmarks.peers.environments import NotInstalled, interpreter
from benchmarks.peers.rows import Row, Side
from benchmarks.peers.spec import Spec
from benchmarks.programs import Program, ProgramError
from benchmarks.records import WrongReply
from benchmarks.subjects import ROWS_KEPT, Array, Subject, to_stderr
from benchmarks.tensors_over_http import BinaryOipForm
from headrace.free_ports import free_port

CONNECTIONS, MANY = 64, 256
IDLE_S = 2.0
HALF = 0.5
OVER = "HTTP"
ENDS_WITHIN_S = 20.0  # Triton takes more than 5 to give back its shared memory


class Effort(Struct, frozen=True):
    """How long each load is, and how often the maximum is measured."""

    seconds: float
    runs: int


def checked(load: Summary) -> Summary:
    """Raises ValueError where more failed than by chance: what is refused is quick."""
    if load.errors > load.requests // 100:
        raise ValueError(f"{load.errors} of {load.requests} requests failed")
    return load


class HttpComparison:
    """One model over HTTP. Belongs to one event loop."""

    def __init__(self, servers: str, subject: Subject, folder: Path, effort: Effort) -> None:
        self._servers, self._subject, self._folder, self._effort = servers, subject, folder, effort
        self._expected: dict[str, Array] = dict(subject.answers(ROWS_KEPT))

    async def rows(self, peers: Sequence[HttpPeer]) -> list[Row]:
        """1. headrace's maximum; 2. each peer's, and its load at half of the lower one; 3. headrace at those loads."""
        many = self._subject.name == "mlp" and any(peer.rival for peer in peers)
        peers = [peer for peer in peers if self._subject.name in peer.setups]
        try:
            ours = await self._our_side(many)  # 1
        except TooSlow as err:
            return [replace(self._blank(peer), reason=f"headrace is {err}") for peer in peers]
        rows = [await self._row(peer, ours, many) for peer in peers]  # 2
        async with self._ours(CONNECTIONS) as endpoint:  # 3
            return [await self._with_our_load(row, endpoint) for row in rows]

    async def _our_side(self, many: bool) -> Side:
        async with self._ours(CONNECTIONS) as endpoint:
            ours = await self._side("headrace", endpoint, None)
        if many:
            async with self._ours(MANY) as endpoint:
                most = await self._closed(endpoint, MANY)
                ours = replace(ours, many=dict(ours.many) | {MANY: most.per_s})
        return ours

    def _blank(self, peer: HttpPeer) -> Row:
        return Row(peer.name, self._subject.name, str(peer.setups[self._subject.name]), OVER, note=peer.note)

    async def _row(self, peer: HttpPeer, ours: Side, many: bool) -> Row:
        row = replace(self._blank(peer), ours=ours)
        try:
            async with self._theirs(peer) as (program, endpoint):
                theirs = await self._side(peer.name, endpoint, program)
                if peer.rival and many:
                    most = await self._closed(endpoint, MANY)
                    theirs = replace(theirs, many=dict(theirs.many) | {MANY: most.per_s})
                per_s = HALF * min(ours.per_s, theirs.per_s)
                row = await self._with_their_load(replace(row, theirs=theirs), per_s, endpoint)
        except (NotInstalled, ProgramError, WrongReply, OSError, ValueError) as err:
            to_stderr(f"{self._subject.name}, {peer.name}: {err}")
            return replace(row, theirs=None, reason=str(err))
        return row

    async def _with_their_load(self, row: Row, per_s: float, endpoint: Endpoint) -> Row:
        """The maximum stands where only the load at half of it is too slow."""
        try:
            load = checked(await endpoint.load(self._subject, MANY, self._effort.seconds, per_s))
        except TooSlow as err:
            return replace(row, no_load=f"{per_s:.2g} a second is {err}")
        return replace(row, load_per_s=per_s, their_load=load)

    async def _with_our_load(self, row: Row, endpoint: Endpoint) -> Row:
        if row.load_per_s is None:
            return row
        to_stderr(f"{row.model}, headrace: {row.load_per_s:,.0f}/s, as {row.peer} had")
        load = await endpoint.load(self._subject, MANY, self._effort.seconds, row.load_per_s)
        return replace(row, our_load=load)

    async def _side(self, name: str, endpoint: Endpoint, program: Program | None) -> Side:
        to_stderr(f"{self._subject.name}, {name}: {CONNECTIONS} connections")
        idle = await endpoint.load(self._subject, 1, IDLE_S)
        before = program.cpu_s() if program else 0.0
        loads = [await self._closed(endpoint, CONNECTIONS) for _ in range(self._effort.runs)]
        cpu_us = None
        if program is not None:
            answered = sum(load.per_s * (self._effort.seconds + 1.0) for load in loads)  # warm-up included
            cpu_us = (program.cpu_s() - before) * 1e6 / answered
        rates = [load.per_s for load in loads]
        return Side(rates, cpu_us, idle.p50_ms, {CONNECTIONS: sorted(rates)[len(rates) // 2]})

    async def _closed(self, endpoint: Endpoint, connections: int) -> Summary:
        load = checked(await endpoint.load(self._subject, connections, self._effort.seconds))
        if load.per_s == 0:
            raise TooSlow(f"too slow to measure: 0 requests in {self._effort.seconds:g} s")
        return load

    @asynccontextmanager
    async def _ours(self, connections: int) -> AsyncIterator[Endpoint]:
        variant = variant_for(self._subject, connections)
        async with headrace_over_http(self._servers, self._subject, self._folder, variant, self._expected) as endpoint:
            yield replace(endpoint, form=BinaryOipForm())  # as raw as what most of the others are sent

    @asynccontextmanager
    async def _theirs(self, peer: HttpPeer) -> AsyncIterator[tuple[Program, Endpoint]]:
        python = interpreter(peer.name, peer.packages, to_stderr)
        setup, port = peer.setups[self._subject.name], free_port()
        file, inputs = str(self._subject.file), inputs_of(self._subject)
        spec = Spec(file, inputs, port, setup.workers, setup.batch, wait_ms(self._subject))
        program = Program(peer.module, python=python, environment=spec.variable(), unread=True)
        endpoint = Endpoint(port, peer.path, peer.form)
        try:
            await program.start()
            await endpoint.ready(program, self._subject, self._expected)
            yield program, endpoint
        finally:
            await program.end(ENDS_WITHIN_S)
