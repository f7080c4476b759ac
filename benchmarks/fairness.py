"""What a neighbour costs others' latencies: `python -m benchmarks.fairness [--open] [--seconds N] [--virtual]`.

What is measured. A worker as users start it, on an Apache Kafka of this machine, serves a python model that sleeps
20 ms + 1 ms a row, batches of 16 at most. Requests arrive in open loop (Poisson), in the interactive lane; a latency
counts from the moment at which a request was due. The first seconds of each part are warm-up.

- Tenants: ten ask for 6 % each of what full batches could do; then one of them has 400 requests out at any time, a
  hundred times its usual number, and so asks for all that the device can do. The P99 of the other nine is compared.
- With `--open` that alone: the one publishes a hundred times its usual number and waits for no reply, while each
  tenant has a quota of 64 (`tenants: {max_waiting: 64}`); how much of the flood is refused is told, too.
- Lanes: requests for 40 % of it; then the same while more lies in the bulk lane than can run. Their P99 is compared.

With `--virtual` no worker is started: its own backlog lives through the like in virtual time, on three kinds of device,
without and with `slo_ms`. Ends with exit code 1 when a P99 is above its bound, 1.2 times what it was beside a tenant,
1.3 times beside bulk, or the SLO with `slo_ms`; or when the machine was too busy to tell: without a neighbour the P99
was 1.5 times what virtual time foretells.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from benchmarks.arena import scratch_folder
from benchmarks.fairness_report import LANES, OPEN, TENANTS, Compared, Figures, table
from benchmarks.fairness_virtual import (
    DEVICES,
    FLOODER,
    INTERACTIVE,
    QUOTA,
    TENANT_COUNT,
    TENANTS_LOAD,
    TIMES,
    WINDOW,
    WITH_SLO,
    Device,
    beside_bulk,
    beside_flood,
    beside_open_flood,
    interactive,
    tenants,
)  # fmt: skip
from benchmarks.flood import open_flood
from benchmarks.machine import Machine
from benchmarks.programs import HeadraceWorker, ProgramError
from benchmarks.simulate_check import MANIFEST, SLEEPER
from benchmarks.subjects import Array
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from headrace.sim_trace import Arrival, in_order
from producer_sdk import Client, HeadraceError
from producer_sdk.topics import Lane

PREFIX, MODEL = "fair", "sleeper"
SLEEPING = Device("sleeps 20 ms + 1 ms a row", 20.0, 1.0, 16)
MAX_WAIT_MS = 10.0
MOST_PER_S = SLEEPING.rows / (SLEEPING.fixed_ms + SLEEPING.rows * SLEEPING.row_ms) * 1000
WARM_UP_S, SECONDS = 3.0, 15.0
BURST_BATCHES = 12
HANDFUL = 500  # bulk requests published at once
REPLY_LIMIT_S = 60.0
ROW: Mapping[str, Array] = {"x": np.zeros((1, 2), np.float32)}


class Answered(Struct, frozen=True):
    """One request: from due to answered; infinite with an error."""

    arrival: Arrival
    latency_s: float


class Part(Struct, frozen=True):
    """What a part of the run came to, warm-up left out; `used` is of the most rows a second."""

    answered: tuple[Answered, ...]
    used: float

    def figures(self, *, without: str | None = None) -> Figures:
        """Of all requests but those of a tenant."""
        return Figures.of(each.latency_s for each in self.answered if without is None or each.arrival.tenant != without)


class Bench:
    """A worker and a client of it. Belongs to one event loop."""

    def __init__(self, worker: HeadraceWorker, client: Client, seconds: float) -> None:
        self._worker, self._client, self._seconds = worker, client, seconds

    async def part(self, arrivals: Sequence[Arrival]) -> Part:
        """Ask at each arrival's time, however long the answers take."""
        async with asyncio.TaskGroup() as group:
            used = group.create_task(self._used())
            answered = await self.ask(arrivals)
        return Part(tuple(each for each in answered if each.arrival.at_s >= WARM_UP_S), used.result())

    async def ask(self, arrivals: Sequence[Arrival]) -> list[Answered]:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            tasks = []
            for arrival in arrivals:
                if (early_s := began + arrival.at_s - time.perf_counter()) > 0:
                    await asyncio.sleep(early_s)
                tasks.append(group.create_task(self._one(arrival, began + arrival.at_s)))
        return [task.result() for task in tasks]

    async def _one(self, arrival: Arrival, due: float) -> Answered:
        try:
            await self._client.infer(MODEL, ROW, lane=arrival.lane, tenant=arrival.tenant, deadline_s=REPLY_LIMIT_S)
        except HeadraceError:
            return Answered(arrival, float("inf"))
        return Answered(arrival, time.perf_counter() - due)

    async def _used(self) -> float:
        await asyncio.sleep(WARM_UP_S)
        before, began = await self._rows(), time.perf_counter()
        await asyncio.sleep(self._seconds)
        return (await self._rows() - before) / (time.perf_counter() - began) / MOST_PER_S

    async def _rows(self) -> float:
        return (await self._worker.metrics()).get("headrace_batch_rows_sum", 0.0)

    async def refused(self) -> float:
        """Requests that exceeded a quota."""
        return (await self._worker.metrics()).get("headrace_over_quota_total", 0.0)

    @asynccontextmanager
    async def flood(self) -> AsyncIterator[None]:
        """One tenant has `WINDOW` requests out, at any time."""
        ended = asyncio.Event()

        async def flood() -> None:
            rows = (ROW for _ in iter(ended.is_set, True))
            limits = {"window": WINDOW, "deadline_s": REPLY_LIMIT_S}
            outcomes = self._client.map(MODEL, rows, lane=Lane.INTERACTIVE, tenant=FLOODER, **limits)  # type: ignore[arg-type]
            async with aclosing(outcomes):
                async for _ in outcomes:
                    pass

        async with asyncio.TaskGroup() as group:
            group.create_task(flood())
            try:
                yield
            finally:
                ended.set()

    async def fill_bulk(self) -> int:
        """Publish more than can run in a part; returns how many."""
        count = int(MOST_PER_S * (WARM_UP_S + self._seconds)) + 4 * HANDFUL
        for _ in range(0, count, HANDFUL):
            await asyncio.gather(*(self._client.publish(MODEL, ROW, lane=Lane.BULK) for _ in range(HANDFUL)))
        return count


async def measure(servers: str, models: Path, seconds: float, is_open: bool) -> list[Compared]:
    """1. a burst, from which the worker learns run times; 2. tenants; 3. lanes, last, for bulk stays in the log."""
    length_s = WARM_UP_S + seconds
    async with AsyncExitStack() as stack:
        worker = HeadraceWorker(servers, models, MODEL, PREFIX)
        stack.callback(worker.kill)
        await worker.start()
        await worker.ready()
        bench = Bench(worker, await stack.enter_async_context(Client(servers, prefix=PREFIX)), seconds)
        burst = [Arrival(0.0, Lane.INTERACTIVE, tenant=str(n % 4)) for n in range(BURST_BATCHES * SLEEPING.rows)]
        await bench.ask(burst)  # 1; as several tenants, for each may have a quota
        if is_open:
            found = [await _tenants(bench, length_s, servers)]  # 2
        else:
            found = [await _tenants(bench, length_s), await _lanes(bench, length_s)]  # 2, 3
        await worker.stop()
    return found


async def _tenants(bench: Bench, length_s: float, flooded: str | None = None) -> Compared:
    """`flooded`: the servers where the flood is published in open loop."""
    asked = tenants(MOST_PER_S, TENANTS_LOAD, length_s, seed=1)
    without = await bench.part(in_order(each for arrivals in asked.values() for each in arrivals))
    own = in_order(each for name, arrivals in asked.items() if name != FLOODER for each in arrivals)
    load = TENANTS_LOAD * (TENANT_COUNT - 1) / TENANT_COUNT
    what, refused = TENANTS, None
    if flooded is None:
        async with bench.flood():
            beside = await bench.part(own)
    else:
        rate = TIMES * TENANTS_LOAD / TENANT_COUNT * MOST_PER_S
        async with open_flood(flooded, PREFIX, MODEL, FLOODER, rate) as flood:
            beside = await bench.part(own)
            what, refused = OPEN, await bench.refused() / flood.published
    figures = without.figures(without=FLOODER), beside.figures()
    return Compared(what, SLEEPING.name, load, *figures, beside.used, refused=refused)


async def _lanes(bench: Bench, length_s: float) -> Compared:
    own = interactive(MOST_PER_S, INTERACTIVE, length_s, seed=2)
    without = await bench.part(own)
    await bench.fill_bulk()
    beside = await bench.part(own)
    if beside.used < without.used + 0.01:
        raise ProgramError("Hardly anything of the bulk lane ran: it does not lie beside the other.")
    return Compared(LANES, SLEEPING.name, INTERACTIVE, without.figures(), beside.figures(), beside.used)


def foretold(measured: Sequence[Compared]) -> list[Compared]:
    """Each with what virtual time says of the same device, and that itself behind it."""
    found, live = [], {LANES: beside_bulk, TENANTS: beside_flood, OPEN: beside_open_flood}
    for each in measured:
        virtual = live[each.what](SLEEPING)
        found += [replace(each, foretold_p99_ms=virtual.without.p99_ms)]
        found += [replace(virtual, device=f"{SLEEPING.name}, in virtual time")]
    return found


def write_model(models: Path, is_open: bool) -> None:
    version = models / MODEL / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(SLEEPER.format(fixed=SLEEPING.fixed_ms, row=SLEEPING.row_ms), encoding="utf-8")
    manifest = MANIFEST.format(batch=SLEEPING.rows, wait=MAX_WAIT_MS)
    manifest += f"tenants: {{max_waiting: {QUOTA.max_waiting}}}\n" if is_open else ""
    (models / MODEL / "model.yaml").write_text(manifest, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.fairness", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each of the four parts, after its warm-up")
    parser.add_argument("--open", action="store_true", help="a flood that waits for no reply, beside quotas, alone")
    parser.add_argument("--virtual", action="store_true", help="in virtual time, without a worker")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    if given.virtual:
        studies = (beside_open_flood,) if given.open else (beside_bulk, beside_flood, beside_open_flood)
        found = [each(device) for each in studies for device in (*DEVICES, *WITH_SLO)]
    else:
        machine = Machine.here()
        with warm_kafka() as kafka, scratch_folder() as scratch:
            models = Path(scratch) / "models"
            write_model(models, given.open)
            found = foretold(run(measure(kafka.bootstrap_servers, models, given.seconds, given.open)))
        print(machine)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps(to_builtins(found), indent=1) + "\n", encoding="utf-8")
    return 0 if all(each.passes for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
