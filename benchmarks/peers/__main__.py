"""headrace beside its peers, same models, same machine, same run: `python -m benchmarks.peers [--peer P] [--model M]`.

What is measured. Every peer runs by an interpreter of its own with its packages (made once in the cache), tuned by its
own docs, on the same ONNX file with one thread a process. One system runs at a time.

- Maximum. HTTP: 64 connections that stay open, each with one request out, one row a request. Queues: a full topic
  (Celery: a full queue) drained, as in `python -m benchmarks.worker`. The median of `--runs`.
- Latency at the same load: Poisson arrivals at half of the lower of the two maxima, for both, from when each request
  was due.

HTTP peers get raw bytes, or what their docs name as the way in; headrace is asked through its gateway with binary
tensors, its requests going through Kafka twice. Queue peers stand beside headrace's worker. The generator's share of
one core is in the JSON, for it runs on the same cores. Kafka's and Redis' own CPU is not in a system's CPU us.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import baselines
from benchmarks.arena import scratch_folder
from benchmarks.export_minilm import NotExported
from benchmarks.machine import Machine
from benchmarks.peers.catalogue import HTTP_PEERS
from benchmarks.peers.http_peers import Effort, HttpComparison
from benchmarks.peers.peer_report import finish
from benchmarks.peers.queue_peers import QueueComparison
from benchmarks.peers.rows import Row
from benchmarks.report import Comparison
from benchmarks.subjects import Subject, model_file
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from headrace.local_kafka import LocalKafka

MODELS = ("mlp", "cls", "minilm")
QUEUE_PEERS = ("aiokafka", "faststream", "celery")
PEERS = (*QUEUE_PEERS, *(peer.name for peer in HTTP_PEERS))


def main() -> int:
    given = options().parse_args()
    wanted, machine = tuple(given.peer or PEERS), Machine.here()
    effort, rows, left_out = Effort(given.seconds, given.runs), list[Row](), list[str]()
    with warm_kafka() as kafka, scratch_folder() as folder:
        for model in given.model or MODELS:
            try:
                subject = Subject.of(model, model_file(model, Path(folder)))
            except NotExported as reason:
                left_out.append(str(reason))
                continue
            rows += compare(kafka, subject, Path(folder), effort, wanted, given.rows_share)
    file = given.baseline or baselines.file_for("peers", machine.cores)
    comparison = Comparison(file, given.threshold, given.store_baseline)
    return finish(machine, rows, left_out, comparison, given.json)


def compare(
    kafka: LocalKafka, subject: Subject, folder: Path, effort: Effort, wanted: tuple[str, ...], rows_share: float
) -> list[Row]:
    """One model beside all wanted peers."""
    rows: list[Row] = []
    if set(wanted) & set(QUEUE_PEERS):
        rows += run(QueueComparison(kafka, subject, folder, effort, rows_share).rows(wanted))
    if http := [peer for peer in HTTP_PEERS if peer.name in wanted]:
        rows += run(HttpComparison(kafka.bootstrap_servers, subject, folder, effort).rows(http))
    return rows


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--peer", action="append", choices=PEERS, help="default: all; repeatable")
    parser.add_argument("--model", action="append", choices=MODELS, help="default: all; repeatable")
    parser.add_argument("--runs", type=int, default=3, help="of each maximum")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, after a second of warm-up")
    parser.add_argument("--rows-share", type=float, default=1.0, help="of the rows that are drained")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--baseline", type=Path, help="stored ratios; default: those for as many cores")
    parser.add_argument("--threshold", type=float, default=baselines.THRESHOLD, help="share that is a regression")
    parser.add_argument("--store-baseline", action="store_true", help="store this run's ratios instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
