"""When a batch closes. Pure: values and `now` in, a time out."""

from __future__ import annotations

import math

from msgspec import Struct


class BatchRule(Struct, frozen=True):
    """Bounds of one model's batches.

    Attributes:
        max_rows: most rows a batch.
        max_bytes: most input bytes a batch.
        max_wait_s: how long the oldest request may wait for company; 0 takes what is there.
    """

    max_rows: int
    max_bytes: int
    max_wait_s: float


class Waiting(Struct, frozen=True, gc=False):
    """The bucket that runs next, as the rule sees it.

    Attributes:
        rows, nbytes: what waits in it.
        oldest: monotonic seconds at which its oldest request arrived.
        expires: earliest deadline in it, monotonic seconds; infinite without one.
        alone: the next request must run by itself.
    """

    rows: int
    nbytes: int
    oldest: float
    expires: float = math.inf
    alone: bool = False


def close_at(rule: BatchRule, waiting: Waiting, *, idle: bool, intake_paused: bool, run_s: float) -> float:
    """Monotonic seconds at which the batch closes; in the past means now, infinite means when something changes.

    A full batch closes at once, so that it is assembled while another runs. A busy device keeps gathering otherwise. An
    idle one waits for company until the oldest has waited `max_wait_s`, or until the tightest deadline would be missed
    (`run_s` is how long a batch takes), but never when waiting cannot help.
    """
    full = waiting.alone or waiting.rows >= rule.max_rows or waiting.nbytes >= rule.max_bytes
    if full:
        return -math.inf
    if not idle:
        return math.inf
    if intake_paused or rule.max_wait_s <= 0:
        return -math.inf
    return min(waiting.oldest + rule.max_wait_s, waiting.expires - run_s)
