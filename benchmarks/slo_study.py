"""How `slo_ms` chooses batches, in virtual time: `python -m benchmarks.slo_study` draws docs/images/slo-regimes.svg.

A device that takes `base + slope * rows` seconds, give or take, gets requests at a rate that rises from idle to nearly
all that it can carry. The worker's own decision (workers/slo.py) and learned latency (workers/run_times.py) drive it.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from benchmarks.plot import Chart, line_charts
from workers.run_times import RunTimes
from workers.slo import SloControl

PICTURE = Path("docs/images/slo-regimes.svg")
SLO_S, MAX_ROWS = 0.060, 256
SECONDS = 120.0
BUCKET = "x"


class Control(Protocol):
    """What decides on batches: workers.slo.SloControl, or a fixed rule to compare it with."""

    def observe(self, latency_s: float, now: float) -> None: ...

    def took(self, rows: int, left_rows: int, now: float) -> None: ...

    def max_rows(self, now: float) -> int: ...

    def wait_s(self, now: float) -> float: ...


class Fixed:
    """A bound and a wait that never change."""

    def __init__(self, rows: int, wait_s: float = 0.0) -> None:
        self._rows, self._wait_s = rows, wait_s

    def observe(self, latency_s: float, now: float) -> None:
        pass

    def took(self, rows: int, left_rows: int, now: float) -> None:
        pass

    def max_rows(self, now: float) -> int:
        return self._rows

    def wait_s(self, now: float) -> float:
        return self._wait_s


class Device(Struct, frozen=True):
    """Run time by rows and by time of day, in seconds; `noise` is the deviation of its logarithm.

    Attributes:
        ahead: batches that are put together before the device is free: 1 as in the worker, where the next batch lies
            ready in its slot while one runs; 0 to do without.
    """

    seconds: Callable[[int, float], float]
    noise: float = 0.05
    ahead: int = 1


class Done(Struct, frozen=True, gc=False):
    """One batch that has run. `rows` counts the bulk rows that filled it, `latencies_s` has the others' latencies."""

    start: float
    end: float
    rows: int
    most_rows: int
    latencies_s: tuple[float, ...]


def simulate(
    control: Control,
    device: Device,
    rate: Callable[[float], float],
    seconds: float,
    *,
    bulk: bool = False,
    run_times: RunTimes | None = None,
    seed: int = 1,
) -> list[Done]:
    """Requests of one row come at random at `rate(now)` a second; with `bulk`, rows without an SLO fill every batch."""
    chance = random.Random(seed)
    line = _Line(control, _arrivals(chance, rate, seconds), bulk)
    done: list[Done] = []
    free = 0.0
    while free < seconds:
        now = free
        line.let_come(now)
        if line.ready is None:
            now = line.wait_for_work(now)
            line.ready = line.take(now)
        (rows, most, own), line.ready = line.ready, None
        run_s = device.seconds(rows, now) * chance.lognormvariate(0.0, device.noise)
        free = now + run_s
        if device.ahead and (bulk or len(line.waiting) >= control.max_rows(now)):
            line.ready = line.take(now)
        done.append(Done(now, free, rows, most, tuple(free - came for came in own)))
        if run_times is not None:
            run_times.observe(BUCKET, rows, rows, run_s)
        for latency_s in done[-1].latencies_s:
            control.observe(latency_s, free)
    return done


class _Line:
    """Requests on their way to the device: still to come, waiting, and in a batch that is put together."""

    def __init__(self, control: Control, arrivals: deque[float], bulk: bool) -> None:
        self._control, self._arrivals, self._bulk = control, arrivals, bulk
        self.waiting: deque[float] = deque()
        self.ready: tuple[int, int, list[float]] | None = None

    def let_come(self, until: float) -> None:
        while self._arrivals[0] <= until:
            self.waiting.append(self._arrivals.popleft())

    def wait_for_work(self, now: float) -> float:
        """When an idle device starts: a batch is full, or its oldest has waited long enough."""
        if self._bulk:
            return now
        if not self.waiting:
            now = self._arrivals[0]
            self.let_come(now)
        missing = self._control.max_rows(now) - len(self.waiting)
        if missing > 0:
            full = self._arrivals[missing - 1] if missing <= len(self._arrivals) else math.inf
            now = max(now, min(full, self.waiting[0] + self._control.wait_s(now)))
            self.let_come(now)
        return now

    def take(self, now: float) -> tuple[int, int, list[float]]:
        """Rows of a batch, the most that there might have been, and when those with an SLO came."""
        most = self._control.max_rows(now)
        own = [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]
        rows = most if self._bulk else len(own)
        self._control.took(rows, len(self.waiting), now)
        return rows, most, own


def _arrivals(chance: random.Random, rate: Callable[[float], float], seconds: float) -> deque[float]:
    now, arrivals = 0.0, deque[float]()
    while now < seconds:
        now += chance.expovariate(max(rate(now), 1e-3))
        arrivals.append(now)
    arrivals.append(math.inf)
    return arrivals


def rows_per_s(done: list[Done]) -> float:
    return sum(each.rows for each in done) / (done[-1].end - done[0].start)


def quantile_s(done: list[Done], quantile: float = 0.99) -> float:
    """Of the latencies; infinite where there are none."""
    latencies = sorted(latency for each in done for latency in each.latencies_s)
    return latencies[min(int(quantile * len(latencies)), len(latencies) - 1)] if latencies else math.inf


PEAK_S, PEAK, IDLE = 90.0, 1560.0, 3.0
USUAL = Fixed(32, 0.010)


def day(now: float) -> float:
    """Requests a second: from idle up to the peak, there for a while, and down again."""
    if now < PEAK_S:
        return IDLE + (PEAK - IDLE) * now / PEAK_S
    return PEAK if now < PEAK_S + 15.0 else IDLE + (PEAK - IDLE) * max(0.0, 1.0 - (now - PEAK_S - 15.0) / 10.0)


def linear(rows: int, now: float) -> float:
    """A device that takes 4 ms and half a millisecond a row."""
    return 0.004 + 0.0005 * rows


def draw(path: Path) -> None:
    """Run the day and draw it; a line of figures a phase on standard output."""
    device, run_times = Device(linear), RunTimes()
    ours = simulate(SloControl(SLO_S, MAX_ROWS, run_times), device, day, SECONDS, run_times=run_times)
    usual = simulate(USUAL, device, day, SECONDS)
    every_s = range(int(SECONDS))
    charts = [
        Chart("Load", "s", "requests a second", {"that come": [(at, day(at)) for at in every_s]}),
        Chart(
            "Rows of a batch",
            "s",
            "rows, mean of a second",
            {
                "bound that slo_ms chooses": _by_second(ours, lambda each: float(each.most_rows)),
                "rows with slo_ms": _by_second(ours, lambda each: float(each.rows)),
                "rows with 32 and 10 ms": _by_second(usual, lambda each: float(each.rows)),
            },
        ),
        Chart(
            "Latency",
            "s",
            "ms, p99 of two seconds",
            {
                "slo_ms: 60": _latencies_ms(ours),
                "max_batch_size: 32, max_wait_ms: 10": _latencies_ms(usual),
                "the SLO": [(0.0, SLO_S * 1e3), (SECONDS, SLO_S * 1e3)],
            },
            log_y=True,
        ),
    ]
    line_charts(charts, path)
    for start, end in ((0.0, 10.0), (10.0, 50.0), (50.0, PEAK_S), (PEAK_S, PEAK_S + 15.0)):
        for name, done in (("slo_ms", ours), ("32, 10 ms", usual)):
            part = [each for each in done if start <= each.start < end]
            rows = sum(each.rows for each in part) / len(part)
            print(
                f"{start:3.0f} to {end:3.0f} s, {name:>9}: {rows_per_s(part):6.0f} rows/s, {rows:5.1f} a batch, "
                f"p50 {quantile_s(part, 0.5) * 1e3:5.1f} ms, p99 {quantile_s(part) * 1e3:6.1f} ms"
            )


def _by_second(done: list[Done], value: Callable[[Done], float]) -> list[tuple[float, float]]:
    points = []
    for second in range(int(SECONDS)):
        part = [value(each) for each in done if second <= each.start < second + 1]
        if part:
            points.append((second + 0.5, sum(part) / len(part)))
    return points


def _latencies_ms(done: list[Done]) -> list[tuple[float, float]]:
    points = []
    for second in range(0, int(SECONDS), 2):
        part = [each for each in done if second <= each.start < second + 2]
        if part:
            points.append((second + 1.0, quantile_s(part) * 1e3))
    return points


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.slo_study", description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--out", type=Path, default=PICTURE)
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
