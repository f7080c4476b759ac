"""Requests of smaller buckets that ride in a batch of a larger one, padded further, where that pays. Pure.

They would otherwise wait for a run of their own. Where most of a run's time is the same for any size, as on a GPU, a
few more rows in a batch that runs anyway cost far less than that run; where padding costs as much as what is real, as
on a CPU, they do not, and wait. Learned run times say which it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .crowding import rows_beside
from .deadlines import RunTime
from .lanes import LaneQueue
from .line import Limits
from .shapes import Bucket, fits_into
from .work import Work

WORTH = 1 / 3  # of a run of their own: found by simulation, for with more rows that run would have cost less a row


def pays(own_s: float, before_s: float, after_s: float) -> bool:
    """Whether to let requests ride: their own run, and the batch without and with them. 0 is not known."""
    return before_s > 0 and after_s - before_s <= WORTH * own_s


def smaller(buckets: Sequence[object], bucket: object) -> list[Bucket]:
    """Those of the buckets whose requests can run in a batch of `bucket`, the nearest first."""
    fitting = [each for each in buckets if isinstance(each, Bucket) and each != bucket and fits_into(each, bucket)]
    return sorted(fitting, key=lambda each: math.prod(each.sizes), reverse=True)


def take_smaller(
    works: Sequence[Work],
    queue: LaneQueue,
    bucket: object,
    limits: Limits,
    start: float,
    run_time: Callable[[object], RunTime],
) -> list[Work]:
    """Take out whole smaller buckets whose requests ride with `works`, a batch of `bucket` that starts at `start`.

    None is late for it, and no tenant that crowds its bucket is let in. Who is taken belongs to `bucket` from now on:
    its rows take the bytes, and cost what theirs do.
    """
    run_s, rows, cost = run_time(bucket), sum([work.rows for work in works]), sum([work.cost for work in works])
    cost_of_row, row_bytes = cost / rows, max([work.nbytes / work.rows for work in works])
    tightest = min([work.due for work in works])
    left, taken = limits.without(list(works)), list[Work]()
    for other in smaller(list(queue.buckets), bucket):
        about = queue.waiting(other)
        more_cost, more_bytes = about.rows * cost_of_row, math.ceil(about.rows * row_bytes) + about.nbytes
        if about.rows > left.rows or more_bytes > left.nbytes or more_cost > left.cost:
            continue
        own_s, after_s = run_time(other)(about.rows, about.cost), run_s(rows + about.rows, cost + more_cost)
        is_late = start + after_s > min(tightest, about.expires)
        if is_late or not pays(own_s, run_s(rows, cost), after_s) or _is_crowded(queue, other, works, limits):
            continue
        more = queue.take(other, Limits(about.rows, about.nbytes, math.inf))
        for work in more:
            work.bucket, work.cost = bucket, work.rows * cost_of_row
            work.nbytes += math.ceil(work.rows * row_bytes)  # and not less, where what is not padded differs
        taken += more
        rows, cost, tightest = rows + about.rows, cost + more_cost, min(tightest, about.expires)
        left = limits.without([*works, *taken])
    return taken


def _is_crowded(queue: LaneQueue, bucket: object, works: Sequence[Work], limits: Limits) -> bool:
    """Whether one tenant has most of a bucket, and somebody else is in the batch or waits."""
    tenants = {work.request.tenant for work in works} | queue.tenants.waiting.keys()
    return len(tenants) > 1 and rows_beside(queue.buckets[bucket], limits.rows) is not None
