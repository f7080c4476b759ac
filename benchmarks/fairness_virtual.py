"""What a neighbour costs, in virtual time: headrace/sim_engine.py drives the worker's own backlog, which learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.fairness_report import LANES, OPEN, TENANTS, Compared, Figures
from headrace.sim_engine import End, Simulated, Simulation
from headrace.sim_load import Load, Mix, make_trace
from headrace.sim_ports import Governed
from headrace.sim_times import Formula
from headrace.sim_trace import Arrival, in_order
from producer_sdk.topics import Lane
from workers.backlog import Backlog, usual_requests
from workers.batch import BatchRule
from workers.quotas import quotas_of
from workers.run_times import RunTimes
from workers.runners.policies import BatchPolicy, TenantPolicy
from workers.slo import SloControl
from workers.work import Batch, Work

WARM_UP_S = 2.0
MAX_WAIT_S = 0.010
INTERACTIVE, BULK = 0.4, 1.2  # of the most rows a second that full batches could do
TENANTS_LOAD, TENANT_COUNT, TIMES = 0.6, 10, 100
FLOODER = "t0"
WINDOW = 400  # most requests of the flooding tenant that wait: its callers', or the gateway's, bound
QUOTA = TenantPolicy(64)  # of one that has no such bound
UNBOUNDED = 1 << 40


class Device(Struct, frozen=True):
    """What batches take, up to a tenth longer by chance, and how many rows they may have."""

    name: str
    fixed_ms: float
    row_ms: float
    rows: int
    seconds: float = 40.0
    slo_ms: float | None = None

    @property
    def run_time(self) -> Formula:
        return Formula(self.fixed_ms / 1000, self.row_ms / 1000, spread=0.1)

    @property
    def most_per_s(self) -> float:
        """Rows a second of full batches."""
        return self.rows / self.run_time.mean_s(self.rows, self.rows)


DEVICES = (
    Device("4 ms + 0.1 ms a row", 4.0, 0.1, 32, seconds=8.0),
    Device("3 ms a row", 0.0, 3.0, 16),
    Device("5 ms + 3.2 ms a row", 5.0, 3.2, 32),
)
WITH_SLO = tuple(replace(each, slo_ms=slo_ms) for each, slo_ms in zip(DEVICES, (60.0, 100.0, 200.0), strict=True))


class Windowed(Backlog):
    """A backlog whose flooding tenant sends only while less than its window waits; the rest it never sends."""

    waiting = 0

    def add(self, work: Work) -> None:
        if work.request.tenant == FLOODER:
            if self.waiting >= WINDOW:
                return
            self.waiting += 1
        super().add(work)

    def take(self, now: float, starts_at: float = float("-inf")) -> Batch:
        batch = super().take(now, starts_at)
        self.waiting -= sum(work.request.tenant == FLOODER for work in batch.works)
        return batch


def beside_bulk(device: Device, load: float = INTERACTIVE, seed: int = 0) -> Compared:
    """The interactive lane without and with a bulk lane that alone asks for more than the device can do."""
    own = interactive(device.most_per_s, load, device.seconds, seed)
    bulk = make_trace(Load(BULK * device.most_per_s, device.seconds, lanes=Mix.of(Lane.BULK), seed=seed + 1)).arrivals
    return _compared(LANES, device, load, own, bulk, lambda each: each.lane is Lane.INTERACTIVE)


def beside_open_flood(device: Device) -> Compared:
    """The same, where the tenth waits for no reply, and each has a quota."""
    return beside_flood(device, quota=QUOTA)


def beside_flood(
    device: Device, load: float = TENANTS_LOAD, seed: int = 0, quota: TenantPolicy | None = None
) -> Compared:
    """Nine of ten tenants, while the tenth asks for as much as each of them, and for a hundred times as much."""
    traces = tenants(device.most_per_s, load, device.seconds, seed)
    own = in_order(each for name, arrivals in traces.items() if name != FLOODER for each in arrivals)
    rate = TIMES * load / TENANT_COUNT * device.most_per_s
    mixes = {"lanes": Mix.of(Lane.INTERACTIVE), "tenants": Mix.of(FLOODER)}
    flood = make_trace(Load(rate, device.seconds, seed=seed - 1, **mixes)).arrivals  # type: ignore[arg-type]
    share = load * (TENANT_COUNT - 1) / TENANT_COUNT
    what = TENANTS if quota is None else OPEN
    before = traces[FLOODER]
    return _compared(what, device, share, own, flood, lambda each: each.tenant != FLOODER, before, quota)


def interactive(most_per_s: float, load: float, seconds: float, seed: int) -> Sequence[Arrival]:
    return make_trace(Load(load * most_per_s, seconds, lanes=Mix.of(Lane.INTERACTIVE), seed=seed)).arrivals


def tenants(most_per_s: float, load: float, seconds: float, seed: int) -> Mapping[str, Sequence[Arrival]]:
    """Ten tenants that ask for the same, `load` together."""
    found = {}
    for number in range(TENANT_COUNT):
        name = f"t{number}"
        mixes = {"lanes": Mix.of(Lane.INTERACTIVE), "tenants": Mix.of(name)}
        made = Load(load / TENANT_COUNT * most_per_s, seconds, seed=seed * 100 + number, **mixes)  # type: ignore[arg-type]
        found[name] = make_trace(made).arrivals
    return found


def _compared(
    what: str,
    device: Device,
    load: float,
    own: Sequence[Arrival],
    neighbour: Sequence[Arrival],
    is_own: Callable[[Arrival], bool],
    before: Sequence[Arrival] = (),
    quota: TenantPolicy | None = None,
) -> Compared:
    without, beside = (_run(device, in_order([*own, *other]), quota) for other in (before, neighbour))
    ran = sum(run.rows for run in beside.runs if WARM_UP_S <= run.began < device.seconds)
    used = ran / (device.seconds - WARM_UP_S) / device.most_per_s
    quiet, loud = (
        Figures.of(
            fate.latency_s if fate.end is End.ANSWERED else float("inf")
            for fate in each.fates
            if is_own(fate.arrival) and fate.arrival.at_s >= WARM_UP_S
        )
        for each in (without, beside)
    )
    refused = None
    if quota is not None:
        refused = sum(fate.end is End.REFUSED for fate in beside.fates if not is_own(fate.arrival)) / len(neighbour)
    return Compared(what, device.name, load, quiet, loud, used, device.slo_ms, refused=refused)


def _run(device: Device, arrivals: Sequence[Arrival], quota: TenantPolicy | None) -> Simulated:
    times = RunTimes()
    policy = BatchPolicy(slo_ms=device.slo_ms, tenants=quota)
    kind = Windowed if quota is None else Backlog
    backlog = kind(usual_requests(device.rows), UNBOUNDED, policy, times)
    rule = backlog.rule = BatchRule(device.rows, UNBOUNDED, MAX_WAIT_S)

    def bound(max_rows: int, max_wait_s: float) -> None:
        backlog.rule = replace(rule, max_rows=max_rows, max_wait_s=max_wait_s)

    governed = None
    if device.slo_ms is not None:
        governed = Governed(SloControl(device.slo_ms / 1000, device.rows, times), bound)
    quotas = quotas_of(policy, backlog.waiting_of)
    simulation = Simulation(
        backlog, device.run_time, run_times=times, observer=times, governed=governed, quotas=quotas
    )  # fmt: skip
    return simulation.run(arrivals)
