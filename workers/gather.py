"""A batch gathered out of a bucket: as many as fit and are in time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from .batch import Waiting
from .deadlines import Plan, RunTime, in_time, plan, rows_within
from .lanes import LaneQueue
from .line import Limits
from .work import Work

HORIZON = 4  # how many batches of those that wait are looked at where not all can be in time


def gather(
    queue: LaneQueue, bucket: object, limits: Limits, start: float, run_s: RunTime, rows_per_s: float
) -> list[Work]:
    """Take out the members of a batch that starts at `start`; one at least, though it be too large or late."""
    finish = -math.inf
    if _may_be_late(queue.about(bucket), limits, start, run_s) and _may_be_late(
        queue.waiting(bucket), limits, start, run_s
    ):
        limits, finish = _in_time(queue, bucket, limits, start, run_s, rows_per_s)
    return queue.take(bucket, limits, finish) or queue.take_one(bucket)


def _may_be_late(waiting: Waiting, limits: Limits, start: float, run_s: RunTime) -> bool:
    if waiting.expires == math.inf:
        return False
    rows = min(waiting.rows, limits.rows)
    takes_s = run_s(rows, rows * waiting.cost / waiting.rows)
    return takes_s > 0.0 and start + takes_s > waiting.expires


def _in_time(
    queue: LaneQueue, bucket: object, limits: Limits, start: float, run_s: RunTime, rows_per_s: float
) -> tuple[Limits, float]:
    """The limits of a batch whose members are in time, and when it ends: the tenant whose turn it is decides."""
    line = queue.leading(bucket)
    works = [entry[2] for entry in islice(line.entries, HORIZON * max(1, limits.rows))]
    fitting = works[: line.first(limits)] or works[:1]
    if in_time(fitting, limits.rows, start, run_s) < len(fitting):
        planned = plan(works, min(limits.rows, sum(work.rows for work in fitting)), start, run_s, rows_per_s)
    elif len(queue.buckets[bucket]) > 1:
        planned = _filled(fitting, limits.rows, start, run_s)
    else:
        return limits, -math.inf
    if planned is None:
        return Limits(0, 0, 0.0), -math.inf
    return Limits(planned.rows, limits.nbytes, min(limits.cost, planned.cost)), planned.finish


def _filled(works: Sequence[Work], most_rows: int, start: float, run_s: RunTime) -> Plan:
    """As many of others' rows beside these as leave them in time."""
    cost_of_row = sum(work.cost for work in works) / sum(work.rows for work in works)
    tightest = min([work.due for work in works])
    rows = rows_within(tightest - start, most_rows, cost_of_row, run_s)
    cost = rows * cost_of_row
    return Plan(rows, cost, start + run_s(rows, cost))


def fill_up(
    works: list[Work], queue: LaneQueue, bucket: object, limits: Limits, start: float, most_s: float, run_s: RunTime
) -> list[Work]:
    """Take out those of another lane that may ride with `works`: all are in time, and it runs `most_s` at most."""
    left = limits.without(works)
    if left.rows <= 0 or left.nbytes <= 0 or left.cost <= 0:
        return []
    rows, cost = limits.rows - left.rows, limits.cost - left.cost if limits.cost < math.inf else _cost(works)
    finish = -math.inf
    if run_s(rows, cost):
        cost_of_row = cost / rows
        most_rows = rows_within(min(most_s, min([work.due for work in works]) - start), limits.rows, cost_of_row, run_s)
        most_cost = most_rows * cost_of_row
        left = Limits(most_rows - rows, left.nbytes, min(left.cost, most_cost - cost) if cost else left.cost)
        finish = start + run_s(most_rows, most_cost)
    return queue.take(bucket, left, finish) if left.rows > 0 else []


def _cost(works: Sequence[Work]) -> float:
    return sum([work.cost for work in works])
