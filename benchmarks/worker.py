"""The worker's throughput and cost on Apache Kafka, beside the naive loop and raw onnxruntime, in one run.

`python -m benchmarks.worker [--model mlp|magika|minilm] [--requests N] [--workers N] [--runs N] [--json FILE]`

What is measured. Requests are single rows. Each system's request topic, 4 partitions, is filled once with the same rows
in its own form: headrace's through `producer_sdk.wire`, the naive loop's (see naive.py) as a MessagePack map of eight
facts and the tensor's bytes. Every request asks for its reply in partition 7 of one reply topic of 32, as the
requests of one SDK client do. A drain starts the system's processes (its consumer group rewound to the first record),
waits until all serve, and counts replies by the end offset of that partition every 50 ms; nothing else runs but Kafka.

- inferences/s: replies per second from the first sample that saw a reply to the last at which replies were missing
  (several workers: from 30 to 95 % of them, since they neither get their partitions nor run dry at one moment).
- CPU us: user and system CPU time of all processes of the system, the worker's and its runner's, in that same
  window, divided by the replies in it. Start, load and stop are not in it; Kafka is not in it.
- batch: rows over batches of the whole run, as the system itself counts them.
- raw: onnxruntime alone, one thread a process, as many processes as workers, the same batch, running for 2 s.

The runs alternate raw, naive, headrace; the medians are printed, with the least and the most. A first drain of either
system is thrown away, for it warms the broker up. The last 200 replies of every drain are read and compared with
what the model gives for those rows, and there must be as many replies as requests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.arena import Arena, Outcome, scratch_folder, systems_of
from benchmarks.cluster import Cluster
from benchmarks.figures import Drained, Figures, Plan
from benchmarks.machine import Machine
from benchmarks.report import Report, finish
from benchmarks.subjects import BATCHES, Subject, model_file
from headrace.local_kafka import LocalKafka

REQUESTS = {"mlp": 100_000, "magika": 2_000, "minilm": 4_000}
WORKERS = {"mlp": 1, "magika": 2, "minilm": 2}
SYSTEMS = ("naive", "headrace")

Say = Callable[[str], None]


async def measure(plan: Plan, servers: str, folder: Path, say: Say) -> Drained:
    """Run the plan on a broker; raises what tells that a figure would mean nothing (WrongReply, ProgramError, ...)."""
    subject = Subject.of(plan.model, model_file(plan.model, folder), plan.batch)
    raw: list[float] = []
    async with Cluster(servers) as cluster:
        arena = Arena(cluster, subject, plan.requests, plan.workers)
        systems = systems_of(subject, servers, folder / f"models-{plan.model}", plan.systems)
        drains: dict[str, list[Outcome]] = {system.name: [] for system in systems}
        for system in systems:
            say(f"{plan.model}: filling {plan.requests} requests for {system.name}")
            await arena.fill(system)
            await arena.drain(system)
        for run in range(plan.runs):
            say(f"{plan.model}: run {run + 1} of {plan.runs}")
            raw.append(await arena.raw())
            for system in systems:
                drains[system.name].append(await arena.drain(system))
    return Drained(plan, Figures("raw", raw), [_figures(name, each) for name, each in drains.items()])


def _figures(system: str, outcomes: Sequence[Outcome]) -> Figures:
    drains = [outcome.drain for outcome in outcomes]
    rows = [outcome.batch_rows for outcome in outcomes]
    return Figures(system, [each.per_s for each in drains], [each.cpu_us for each in drains], rows)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.worker", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", choices=tuple(BATCHES), default="mlp")
    parser.add_argument("--requests", type=int, help=f"default: {REQUESTS}")
    parser.add_argument("--batch", type=int, help=f"most rows of a batch; default: {BATCHES}")
    parser.add_argument("--workers", type=int, help=f"processes that share a drain; default: {WORKERS}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=SYSTEMS, help="measure this one and raw alone")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    given = options().parse_args()
    plan = Plan(
        given.model,
        given.requests or REQUESTS[given.model],
        given.batch or BATCHES[given.model],
        given.workers or WORKERS[given.model],
        given.runs,
        (given.only,) if given.only else SYSTEMS,
    )
    machine = Machine.here()
    with LocalKafka(benchmark=True) as kafka, scratch_folder() as folder:
        drained = asyncio.run(measure(plan, kafka.bootstrap_servers, Path(folder), to_stderr))
    return finish(Report(machine, [drained]), given.json)


if __name__ == "__main__":
    sys.exit(main())
