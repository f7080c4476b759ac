"""What it gains to let short requests ride in batches of longer ones: `python -m benchmarks.nearest_study`.

Virtual time: the worker's own backlog, which learns the run times in the run itself. Requests of one row have 3 to 128
tokens, as sentences do, and are padded to 16, 32, 64 or 128; a run takes so much, and so much more a token of its
padded rows, up to a tenth longer by chance. 100 % of load is what full batches of each bucket by itself could do.
Beside it is the same where each bucket keeps to itself (workers/nearest.py left out). Mean of two seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from random import Random
from unittest.mock import patch

import numpy as np
from msgspec import Struct

from headrace.sim_engine import Delays, End, Simulation
from headrace.sim_trace import Arrival
from producer_sdk.topics import Lane
from workers import next_batch
from workers.backlog import Backlog, usual_requests
from workers.batch import BatchRule
from workers.run_times import RunTimes
from workers.shapes import Bucket

SIZES = (16, 32, 64, 128)
LOADS = (0.15, 0.3, 0.6, 0.8, 0.95)
SEEDS = (1, 2)
MOST_S, MOST_REQUESTS, WARM_UP_S, MAX_WAIT_S = 20.0, 15_000, 1.0, 0.01
NO_BOUND = 1 << 40


class Device(Struct, frozen=True):
    """What batches take, and how many rows they may have."""

    name: str
    fixed_ms: float
    token_us: float
    rows: int

    def run_s(self, tokens: int) -> float:
        return self.fixed_ms / 1e3 + self.token_us / 1e6 * tokens

    def draw_s(self, bucket: object, rows: int, cost: float, random: Random) -> float:
        assert isinstance(bucket, Bucket)
        return self.run_s(rows * bucket.sizes[0]) * (1 + 0.1 * random.random())


DEVICES = (
    Device("0.5 ms + 30 us a token, as a CPU", 0.5, 30.0, 16),
    Device("4 ms + 0.5 us a token, as a GPU", 4.0, 0.5, 32),
    Device("4 ms + 2 us a token", 4.0, 2.0, 32),
    Device("5 ms + 20 us a token", 5.0, 20.0, 32),
)


class Lived(Struct, frozen=True):
    """What came of one run."""

    p50_ms: float
    p99_ms: float
    busy: float


def sizes_of(requests: int, seed: int) -> list[int]:
    """What each request is padded to."""
    tokens = np.exp(np.random.default_rng(seed).normal(np.log(20), 0.8, requests)).round().clip(3, SIZES[-1])
    return [next(size for size in SIZES if number <= size) for number in tokens.tolist()]


def most_per_s(device: Device) -> float:
    """Requests a second, each bucket in full batches of its own."""
    return float(device.rows / np.mean([device.run_s(device.rows * size) for size in sizes_of(5000, 0)]))


def live(device: Device, load: float, seed: int, requests: int) -> Lived:
    rate = load * most_per_s(device)
    seconds = min(MOST_S, requests / rate) + WARM_UP_S
    sizes = sizes_of(int(rate * seconds), seed)
    times = np.cumsum(np.random.default_rng(seed + 100).exponential(1 / rate, len(sizes))).tolist()
    arrivals = [
        Arrival(at, Lane.INTERACTIVE, bucket=Bucket((), (size,))) for at, size in zip(times, sizes, strict=True)
    ]
    learned = RunTimes()
    backlog = Backlog(usual_requests(device.rows), NO_BOUND, run_times=learned)
    backlog.rule = BatchRule(device.rows, NO_BOUND, MAX_WAIT_S)
    done = Simulation(backlog, device, run_times=learned, observer=learned, delays=Delays()).run(arrivals)
    assert all(fate.end is End.ANSWERED for fate in done.fates)
    latencies = [fate.latency_s * 1000 for fate in done.fates if fate.arrival.at_s >= WARM_UP_S]
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    ended = max(run.began + run.run_s for run in done.runs)
    return Lived(p50, p99, sum(run.run_s for run in done.runs) / ended)


@contextmanager
def _apart() -> Iterator[None]:
    with patch.object(next_batch, "take_smaller", lambda *_: []):
        yield


def mean(device: Device, load: float, *, apart: bool, requests: int = MOST_REQUESTS) -> Lived:
    with _apart() if apart else nullcontext():
        each: Sequence[Lived] = [live(device, load, seed, requests) for seed in SEEDS]
    return Lived(*(float(np.mean([getattr(one, name) for one in each])) for name in Lived.__struct_fields__))


def main() -> None:
    print("| a run takes | load | P50, P99 apart, ms | with, ms | device busy |\n| --- | --- | --- | --- | --- |")
    for device in DEVICES:
        for load in LOADS:
            apart, riding = (mean(device, load, apart=each) for each in (True, False))
            latencies = " | ".join(f"{one.p50_ms:.1f}, {one.p99_ms:.1f}" for one in (apart, riding))
            print(f"| {device.name} | {load:.0%} | {latencies} | {apart.busy:.0%}, {riding.busy:.0%} |", flush=True)


if __name__ == "__main__":
    main()
