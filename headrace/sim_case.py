"""One case of a what-if: settings of the workers, simulated on a trace. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from headrace.sim_engine import Delays, Simulated, Simulation
from headrace.sim_ports import Governed
from headrace.sim_times import RunTime
from headrace.sim_trace import Arrival, Trace
from workers.backlog import Backlog, usual_requests
from workers.batch import BatchRule, RunTimesLike
from workers.queue_policy import PRIORITY, priority_of
from workers.quotas import quotas_of
from workers.runners.policies import BatchPolicy
from workers.slo import SloControl

PARTITIONS = 8  # of a lane's topic, unless somebody chose otherwise


class Case(Struct, frozen=True):
    """Settings to try.

    Attributes:
        max_batch_size, max_wait_ms, slo_ms: as in model.yaml.
        replicas: runners of a worker.
        workers: how many there are; each has its share of the partitions.
    """

    max_batch_size: int = 32
    max_wait_ms: float = 10.0
    slo_ms: float | None = None
    replicas: int = 1
    workers: int = 1


class Site(Struct, frozen=True):
    """What all cases of a what-if have in common.

    Attributes:
        run_time: how long batches take.
        run_times: what the workers expect them to take.
        policy: order, lanes and tenants, as in model.yaml.
        delays: what requests and batches take outside the device.
        max_batch_bytes, max_backlog_bytes: bounds of a worker.
        max_backlog_requests: another; None takes what its batch size suggests.
        partitions: of a lane's topic.
        seed: of the run times that are drawn.
    """

    run_time: RunTime
    run_times: RunTimesLike
    policy: BatchPolicy = BatchPolicy()
    delays: Delays = Delays()
    max_batch_bytes: int = 256 << 20
    max_backlog_bytes: int = 256 << 20
    max_backlog_requests: int | None = None
    partitions: int = PARTITIONS
    seed: int = 0


def cases_of(
    sizes: Sequence[int],
    waits: Sequence[float],
    slos: Sequence[float | None],
    replicas: Sequence[int],
    workers: Sequence[int],
) -> Iterator[Case]:
    """Each setting with each."""
    for each in product(sizes, waits, slos, replicas, workers):
        yield Case(*each)


def simulate_case(trace: Trace, case: Case, site: Site) -> Simulated:
    """Live through the trace with these settings."""
    shares = _by_worker(_ranked(trace.arrivals, site.policy), case.workers, site)
    done = [_worker(case, site, number).run(arrivals) for number, arrivals in enumerate(shares)]
    fates = sorted((fate for each in done for fate in each.fates), key=lambda fate: fate.arrival.at_s)
    runs = tuple(run for each in done for run in each.runs)
    return Simulated(tuple(fates), runs, case.workers * case.replicas)


def _worker(case: Case, site: Site, number: int) -> Simulation:
    policy = replace(site.policy, slo_ms=case.slo_ms)
    most = site.max_backlog_requests or usual_requests(case.max_batch_size)
    backlog = Backlog(most, site.max_backlog_bytes, policy, site.run_times)
    cost = float("inf") if policy.max_cost is None else policy.max_cost
    wait_s = case.max_wait_ms / 1000
    rule = backlog.rule = BatchRule(case.max_batch_size, site.max_batch_bytes, wait_s, cost, policy.preferred_rows)

    def bound(max_rows: int, max_wait_s: float) -> None:
        backlog.rule = replace(rule, max_rows=max_rows, max_wait_s=max_wait_s)

    governed = None
    if case.slo_ms is not None:
        governed = Governed(SloControl(case.slo_ms / 1000, case.max_batch_size, site.run_times), bound)
    return Simulation(
        backlog,
        site.run_time,
        run_times=site.run_times,
        governed=governed,
        quotas=quotas_of(policy, backlog.waiting_of),
        replicas=case.replicas,
        delays=site.delays,
        seed=site.seed + number,
    )


def _ranked(arrivals: Sequence[Arrival], policy: BatchPolicy) -> Sequence[Arrival]:
    """With the levels that the policy gives them: it may have others than where they were recorded."""
    if not any(arrival.priority for arrival in arrivals) and not policy.priority_levels:
        return arrivals
    return [replace(arrival, priority=priority_of(policy, {PRIORITY: arrival.priority})) for arrival in arrivals]


def _by_worker(arrivals: Sequence[Arrival], workers: int, site: Site) -> list[list[Arrival]]:
    """The arrivals of each worker: each goes to some partition, and the partitions are shared out evenly."""
    shares: list[list[Arrival]] = [[] for _ in range(workers)]
    random = Random(site.seed)
    for arrival in arrivals:
        partition = random.randrange(site.partitions) if workers > 1 else 0
        shares[partition % workers].append(arrival)
    return shares
