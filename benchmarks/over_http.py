"""Servers that are asked over HTTP: when they answer, and loads on them."""

from __future__ import annotations

import asyncio
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.arena import headrace_system
from benchmarks.cluster import REPLY_PARTITIONS, Cluster
from benchmarks.http_load import HttpSpec
from benchmarks.latencies import Summary, TooSlow
from benchmarks.programs import LOOK_AGAIN_S, START_LIMIT_S, Program, ProgramError
from benchmarks.subjects import WAIT_MS, Array, Subject
from benchmarks.tensors_over_http import HttpForm, OipForm, bodies, check
from benchmarks.variants import Variant
from headrace.free_ports import free_port
from producer_sdk.topics import Lane

HOST = "127.0.0.1"
ANSWER_LIMIT_S = 10.0
HOPELESS = (400, 415, 422)  # what was sent will not do later either


class Endpoint(Struct, frozen=True):
    """Where a model answers, and how it wants its rows."""

    port: int
    path: str
    form: HttpForm

    async def answer(self, subject: Subject) -> bytes:
        """The answer to row 0. Raises OSError."""
        url = f"http://{HOST}:{self.port}{self.path}"
        headers = {"Content-Type": self.form.content_type} | self.form.headers(subject)
        request = urllib.request.Request(url, self.form.body(subject, 0), headers, method="POST")

        def ask() -> bytes:
            with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S) as answer:
                value: bytes = answer.read()
                return value

        return await asyncio.to_thread(ask)

    async def ready(self, program: Program, subject: Subject, expected: Mapping[str, Array]) -> None:
        """Wait for an answer, which must be right. Raises ProgramError, WrongReply."""
        last: OSError | None = None
        for _ in range(int(START_LIMIT_S / LOOK_AGAIN_S)):
            if program.process.returncode is not None:
                code, words = program.process.returncode, program.last_words()
                raise ProgramError(f"{program} ended with exit code {code} before it answered. {words}".strip())
            try:
                check(await self.answer(subject), self.form, expected)
                return
            except OSError as err:
                if isinstance(err, urllib.error.HTTPError) and err.code in HOPELESS:
                    raise ProgramError(f"{program} refused the row: {_reason(err)}") from err
                last = err
                await asyncio.sleep(LOOK_AGAIN_S)
        raise ProgramError(f"{program} did not answer within {START_LIMIT_S:.0f} s: {_reason(last)}")

    async def load(
        self,
        subject: Subject,
        connections: int,
        seconds: float,
        per_s: float | None = None,
        limit_s: float = float("inf"),
    ) -> Summary:
        """One load; `per_s` None keeps all connections busy. Raises ProgramError, TooSlow."""
        spec = HttpSpec(
            HOST,
            self.port,
            self.path,
            self.form.content_type,
            bodies(subject, self.form),
            connections,
            seconds,
            per_s,
            limit_s=limit_s,
            headers="".join(f"{name}: {value}\r\n" for name, value in self.form.headers(subject).items()),
        )
        with tempfile.NamedTemporaryFile(prefix="http-load-") as file:
            file.write(msgspec.msgpack.encode(spec))
            file.flush()
            program = Program("benchmarks.http_load", file.name)
            await program.start()
            try:
                return summary_of(await program.line())
            finally:
                program.kill()


def summary_of(line: str) -> Summary:
    """What the generator said. Raises TooSlow where it has no figures."""
    found = json.loads(line)
    if isinstance(found, str):
        raise TooSlow(found)
    return msgspec.convert(found, Summary)


def _reason(err: OSError | None) -> str:
    if isinstance(err, urllib.error.HTTPError):
        return f"HTTP status {err.code}: {err.read(300)!r}"
    return str(err)


class HeadraceGateway(Program):
    """`headrace gateway` as users start it."""

    def __init__(self, servers: str, prefix: str) -> None:
        self.port = free_port()
        super().__init__(
            *("headrace", "gateway", "--bootstrap-servers", servers, "--prefix", prefix, "--host", HOST),
            *("--port", str(self.port), "--admin-port", "0", "--endpoint-lag-s", "0", "--log-level", "warning"),
        )


@asynccontextmanager
async def headrace_over_http(
    servers: str, subject: Subject, folder: Path, variant: Variant, expected: Mapping[str, Array]
) -> AsyncIterator[Endpoint]:
    """A worker and a gateway before it, both stopped at the end. Raises ProgramError, WrongReply."""
    prefix = f"http-{variant.batch or subject.batch}"
    system = headrace_system(subject, servers, folder, variant, prefix, WAIT_MS[subject.name], Lane.INTERACTIVE)
    async with Cluster(servers) as cluster:
        await cluster.create(system.reply_to.topic, REPLY_PARTITIONS)
    async with AsyncExitStack() as stack:
        workers = [system.make() for _ in range(system.workers)]
        gateway = HeadraceGateway(servers, prefix)
        for program in (*workers, gateway):
            stack.callback(program.kill)
            await program.start()
        for worker in workers:
            await worker.ready()
        endpoint = Endpoint(gateway.port, f"/v2/models/{subject.name}/infer", OipForm())
        await endpoint.ready(gateway, subject, expected)
        yield endpoint
        for program in (gateway, *workers):
            await program.stop()
