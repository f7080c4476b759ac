"""The worker's throughput and cost on Apache Kafka, beside the naive loop and raw onnxruntime, in one run.

`python -m benchmarks.worker [--model mlp|cls|magika|minilm] [--rows N] [--batch N] [--only NAME...] [--runs N]`

What is measured. Requests are single rows, those of the columnar variants 64 rows. Each request topic, 4 partitions, is
filled once with the same rows in its own form: headrace's through `producer_sdk.wire`, the naive loop's (see naive.py)
as a MessagePack map of eight facts and the tensor's bytes. Variants of headrace (variants.py) drain the same topic.
Every request asks for its reply in partition 7 of one reply topic of 32, as the requests of one SDK client do. A drain
starts the system's processes (its consumer group rewound to the first record), waits until all serve, and counts
replies by the end offset of that partition, every 50 ms at first, then further apart; nothing else runs but Kafka.

- rows/s: rows answered per second from the first sample that saw a reply to the last at which replies were missing
  (several workers: from 30 to 95 % of them, since they neither get their partitions nor run dry at one moment).
- whole: the same from the first reply to the last, with the time in which one of several workers worked alone.
- CPU us: user and system CPU time of all processes of the system, the worker's and its runner's, in that same
  window, divided by the rows in it. Start, load and stop are not in it; Kafka is not in it.
- Kafka us: Kafka's CPU time in that window, a row; stolen: the share of the machine's CPU time that its hypervisor gave
  to others then.
- batch: rows over batches of the whole run, as the system itself counts them.
- raw: onnxruntime alone with the model's batch for 2 s, one thread a process; two processes at once for models that the
  table measures on both cores. What is held to a share of it has one before and one after each drain.

The runs alternate raw and all systems; the medians are printed, with the least and the most. A first drain of each
topic by each Kafka client is thrown away, for it warms the broker up. From then on its Java may not compile any more
(java_compiler.py), and a drain begins once it does not: that took up to 0.7 of a core from whoever came first. The last
200 replies of every drain are read and compared with what the model gives for those rows, and there must be as many
replies as requests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.arena import Arena, Outcome, System, WrongCount, scratch_folder, systems_of
from benchmarks.cluster import Cluster
from benchmarks.drain import TooShort
from benchmarks.figures import Drained, Figures, Plan
from benchmarks.gates import held_to_raw
from benchmarks.java_compiler import compiler_stopped
from benchmarks.machine import Machine
from benchmarks.programs import ProgramError
from benchmarks.records import WrongReply
from benchmarks.report import Report, finish
from benchmarks.subjects import BATCHES, Subject, model_file, to_stderr
from benchmarks.variants import MEASURED, NAIVE, VARIANTS, able
from benchmarks.warm_kafka import warm_kafka
from headrace.local_kafka import LocalKafka

ROWS = {"mlp": 100_000, "cls": 4_000, "magika": 4_000, "minilm": 5_000}
RAW_PROCESSES = {"mlp": 1, "cls": 2, "magika": 2, "minilm": 2}

# What tells that a figure would mean nothing.
FAULTS = (ProgramError, TooShort, WrongCount, WrongReply, TimeoutError)

Say = Callable[[str], None]


async def measure(plan: Plan, kafka: LocalKafka, folder: Path, say: Say) -> Drained:
    """Run the plan on a broker; a system that fails once gets no figures, and a sentence instead."""
    subject = Subject.of(plan.model, model_file(plan.model, folder), plan.batch)
    raw: list[float] = []
    beside: dict[str, list[float]] = {name: [] for name in held_to_raw(plan.model)}
    failed: dict[str, str] = {}
    served: set[tuple[str, bool]] = set()
    async with Cluster(kafka.bootstrap_servers) as cluster:
        arena = Arena(kafka, cluster, subject, plan.rows)
        systems = systems_of(subject, kafka.bootstrap_servers, folder, plan.systems)
        drains: dict[str, list[Outcome]] = {system.name: [] for system in systems}

        async def drain(system: System, *, warm_up: bool) -> None:
            if system.name in failed:
                return
            try:
                outcome = await arena.drain(system)
            except FAULTS as err:
                failed[system.name] = f"{plan.model}, {system.name}: {err}"
                say(failed[system.name])
                return
            if not warm_up:
                drains[system.name].append(outcome)

        for system in systems:
            say(f"{plan.model}: the topic of {system.name}")
            await arena.fill(system)
            if (served_as := (system.requests, system.librdkafka)) not in served:
                served.add(served_as)
                await drain(system, warm_up=True)
        with compiler_stopped(kafka.pid):
            for run in range(plan.runs):
                say(f"{plan.model}: run {run + 1} of {plan.runs}")
                raw.append(before := await arena.raw(plan.raw_processes))
                for system in systems:
                    await drain(system, warm_up=False)
                    if system.name in beside and system.name not in failed:
                        after = await arena.raw(plan.raw_processes)
                        beside[system.name].append((before + after) / 2)
                        before = after
    whole = [_figures(name, each, beside.get(name, ())) for name, each in drains.items() if name not in failed]
    return Drained(plan, Figures("raw", raw), whole, list(failed.values()))


def _figures(system: str, outcomes: Sequence[Outcome], raw_per_s: Sequence[float]) -> Figures:
    drains = [outcome.drain for outcome in outcomes]
    return Figures(
        system,
        [each.per_s for each in drains],
        [each.cpu_us for each in drains],
        [outcome.batch_rows for outcome in outcomes],
        [each.whole_per_s for each in drains],
        [each.kafka_us for each in drains],
        [each.stolen for each in drains],
        raw_per_s,
    )


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.worker", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", choices=tuple(BATCHES), default="mlp")
    parser.add_argument("--rows", type=int, help=f"default: {ROWS}; four times as many in large records")
    parser.add_argument("--batch", type=int, help=f"most rows of a batch; default: {BATCHES}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", choices=(NAIVE, *VARIANTS), help="measure this and raw; repeatable")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


def main() -> int:
    given = options().parse_args()
    systems, left_out = able(tuple(given.only or MEASURED[given.model]))
    plan = Plan(
        given.model,
        given.rows or ROWS[given.model],
        given.batch or BATCHES[given.model],
        RAW_PROCESSES[given.model],
        given.runs,
        systems,
    )
    machine = Machine.here()
    with warm_kafka() as kafka, scratch_folder() as folder:
        drained = asyncio.run(measure(plan, kafka, Path(folder), to_stderr))
    return finish(Report(machine, [drained], left_out=left_out), given.json)


if __name__ == "__main__":
    sys.exit(main())
