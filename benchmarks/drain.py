"""One drain of a full topic: replies counted and CPU read now and then, and what follows from the samples."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.cluster import Cluster
from benchmarks.others import Others, Taken
from benchmarks.programs import ProgramError, Served

SAMPLE_S = 0.05
# Later samples lie further apart, by so much of the time passed: one costs some 3 ms of the cores that are measured.
SAMPLE_PART = 1 / 10
STALL_LIMIT_S = 30.0
LEAST_SAMPLES = 4
# Several workers do not get their partitions at one moment, nor run dry at one: alone, one says nothing about all.
SHARES_OF_SEVERAL = (0.3, 0.95)


@dataclass(frozen=True, slots=True)
class Sample:
    """Replies so far, CPU seconds so far, and what others took so far, at a moment in seconds."""

    at_s: float
    replies: int
    cpu_s: float
    taken: Taken


@dataclass(frozen=True, slots=True)
class Drain:
    """What the samples amount to: replies per second, and CPU microseconds per reply of all programs together.

    `whole_per_s` is the rate from the first sample with a reply to the one that saw the last. `kafka_us` is Kafka's CPU
    for each reply, `stolen` the share of the machine's CPU time that its hypervisor gave to others meanwhile.
    """

    per_s: float
    cpu_us: float
    replies: int
    whole_per_s: float
    kafka_us: float
    stolen: float

    def of_rows(self, rows: int) -> Drain:
        """The same by rows, where each reply has so many."""
        return replace(
            self,
            per_s=self.per_s * rows,
            cpu_us=self.cpu_us / rows,
            whole_per_s=self.whole_per_s * rows,
            kafka_us=self.kafka_us / rows,
        )


class TooShort(Exception):
    """Too few samples lie between the first reply and the last."""


def measure(samples: Sequence[Sample], total: int, shares: tuple[float, float] = (0.0, 1.0)) -> Drain:
    """From the first sample that sees a reply to the last at which replies were still missing.

    Both ends are moments at which time, replies and CPU were read together, so the sampling interval adds no error.
    `shares` begin and end it at shares of `total` instead. Raises TooShort.
    """
    inside = [sample for sample in samples if sample.replies > 0 and shares[0] <= sample.replies / total < shares[1]]
    if len(inside) < LEAST_SAMPLES or inside[0].replies == inside[-1].replies:
        raise TooShort(f"{len(inside)} samples saw the drain of {total}: give more --rows.")
    first, last = inside[0], inside[-1]
    replies, passed_s = last.replies - first.replies, last.at_s - first.at_s
    return Drain(
        replies / passed_s,
        (last.cpu_s - first.cpu_s) * 1e6 / replies,
        replies,
        _whole(samples),
        (last.taken.kafka_s - first.taken.kafka_s) * 1e6 / replies,
        (last.taken.stolen_s - first.taken.stolen_s) / passed_s,
    )


def _whole(samples: Sequence[Sample]) -> float:
    """Replies per second over all samples with replies; the last sample may be late by a pause."""
    begun = [sample for sample in samples if sample.replies > 0]
    first, last = begun[0], next(sample for sample in begun if sample.replies == begun[-1].replies)
    return (last.replies - first.replies) / (last.at_s - first.at_s)


def pause_s(passed_s: float) -> float:
    """Until the next sample, when the first reply was seen so long ago."""
    return max(SAMPLE_S, SAMPLE_PART * passed_s)


async def watch(
    cluster: Cluster, others: Others, programs: Sequence[Served], replies_topic: str, first: int, total: int
) -> Drain:
    """Watch running programs answer `total` requests, counted by the end offset of the reply partition from `first`.

    Raises ProgramError when no reply comes for 30 s, TooShort.
    """
    samples: list[Sample] = []
    count, moved_at = 0, time.perf_counter()
    began = math.inf
    while count < total:
        count = await cluster.end(replies_topic) - first
        now = time.perf_counter()
        if not samples or count > samples[-1].replies:
            moved_at, began = now, min(began, now if count else math.inf)
        samples.append(Sample(now, count, sum(program.cpu_s() for program in programs), others.taken()))
        if now - moved_at > STALL_LIMIT_S:
            raise ProgramError(f"No reply for {STALL_LIMIT_S:.0f} s; {count} of {total} had come.")
        await asyncio.sleep(pause_s(now - began))
    return measure(samples, total, (0.0, 1.0) if len(programs) == 1 else SHARES_OF_SEVERAL)
