"""When a batch closes. Pure: values and `now` in, a time out."""

from __future__ import annotations

import math

from msgspec import Struct

from .run_times import RunTimesLike as RunTimesLike  # beside NOTHING_KNOWN
from .runners.engine import ModelSpec


class BatchRule(Struct, frozen=True):
    """Bounds of one model's batches.

    Attributes:
        max_rows: most rows a batch.
        max_bytes: most input bytes a batch.
        max_wait_s: how long the oldest request may wait for company; 0 takes what is there.
        max_cost: most declared cost a batch.
        preferred_rows: sizes at which a batch closes at once; the largest that is reached is taken.
    """

    max_rows: int
    max_bytes: int
    max_wait_s: float
    max_cost: float = math.inf
    preferred_rows: tuple[int, ...] = ()


def batch_rule(spec: ModelSpec, max_rows: int, max_bytes: int) -> BatchRule:
    """The bounds that a model's settings mean; `max_rows` are those that the loaded model takes."""
    policy = spec.batching
    max_cost = math.inf if policy.max_cost is None else policy.max_cost
    return BatchRule(max_rows, max_bytes, spec.max_wait_ms / 1000, max_cost, policy.preferred_rows)


class _NothingKnown:
    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        return 0.0


NOTHING_KNOWN: RunTimesLike = _NothingKnown()


class Waiting(Struct, frozen=True, gc=False):
    """A bucket of one lane, as the rule sees it.

    Attributes:
        rows, nbytes, cost: what waits in it.
        oldest: monotonic seconds at which its oldest request arrived.
        expires: earliest deadline in it, monotonic seconds; infinite without one.
    """

    rows: int
    nbytes: int
    oldest: float
    expires: float = math.inf
    cost: float = 0.0


class Outlook(Struct, frozen=True, gc=False):
    """What is to be expected of a batch that closes now. Zeros where nothing is known.

    Attributes:
        run_s: how long it runs.
        longer_s: how much longer it runs with one more row.
        rows_per_s: how many arrive.
    """

    run_s: float = 0.0
    longer_s: float = 0.0
    rows_per_s: float = 0.0


NO_OUTLOOK = Outlook()
TO_ANSWER_S = 0.002  # taken to pass from the end of a run until callers have their answers; not measured


def is_full(rule: BatchRule, waiting: Waiting) -> bool:
    """Whether one more request could only go into the batch after this one."""
    most_rows = rule.max_rows
    if rule.preferred_rows:
        most_rows = max((rows for rows in rule.preferred_rows if rows <= most_rows), default=most_rows)
    return waiting.rows >= most_rows or waiting.nbytes >= rule.max_bytes or waiting.cost >= rule.max_cost


def rows_to_take(rule: BatchRule, waiting_rows: int) -> int:
    """Most rows of the next batch: the largest preferred size that has been reached, else what the rule allows."""
    reached = [rows for rows in rule.preferred_rows if rows <= waiting_rows and rows <= rule.max_rows]
    return max(reached, default=rule.max_rows)


def close_at(
    rule: BatchRule, waiting: Waiting, *, idle: bool, intake_paused: bool, outlook: Outlook = NO_OUTLOOK
) -> float:
    """Monotonic seconds at which the batch closes; in the past means now, infinite means when something changes.

    A full batch closes at once, so that it is assembled while another runs. A busy device keeps gathering otherwise. An
    idle one waits for company until the oldest has waited `max_wait_s`, or until one more millisecond would make the
    answer of the tightest late, but never when waiting cannot help.
    """
    if is_full(rule, waiting):
        return -math.inf
    if not idle:
        return math.inf
    preferred = bool(rule.preferred_rows) and waiting.rows >= min(rule.preferred_rows)
    if intake_paused or preferred or rule.max_wait_s <= 0 or not _company_pays(waiting.rows, outlook):
        return -math.inf
    return min(waiting.oldest + rule.max_wait_s, waiting.expires - outlook.run_s - TO_ANSWER_S - MARGIN_S)


MARGIN_S = 0.001


def _company_pays(rows: int, outlook: Outlook) -> bool:
    """Whether waiting for the next row shortens the time of all together, as far as is known.

    Those that wait lose the gap until it comes and what the batch then runs longer; it gains the run that it would
    else have to sit out.
    """
    if outlook.run_s <= 0.0 or outlook.rows_per_s <= 0.0:
        return True
    return (rows + 1) / outlook.rows_per_s + rows * outlook.longer_s < outlook.run_s
