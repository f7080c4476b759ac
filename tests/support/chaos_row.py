"""What a row of the chaos suite is, and what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from model_folders import DOUBLE
from msgspec import Struct

if TYPE_CHECKING:
    from chaos_stage import Stage

Strike = Callable[["Stage"], Awaitable[None]]


class Load(Struct, frozen=True):
    """The requests that run through a fault.

    Attributes:
        requests: at least so many; more while the fault lasts.
        rate_per_s: how many a second.
        waiting: share of them whose caller waits for the answer; the others are published.
        order: first number of each input, which tells the model what to do.
        orders: number of a request -> another first number.
        width: numbers a request holds.
        large_every: one of so many requests holds `large_width` numbers; 0 none.
        reply_to: topic under the prefix for the published ones; None spreads them over `results` and `replies`.
    """

    requests: int = 400
    rate_per_s: float = 60.0
    waiting: float = 0.5
    order: float = 0.0
    orders: Mapping[int, float] = {}
    width: int = 2
    large_every: int = 0
    large_width: int = 0
    reply_to: str | None = None


class Row(Struct, frozen=True):
    """One fault.

    Attributes:
        name: for `--row`, and the first column.
        fault: what happens, as a sentence.
        strike: does it; returns when everything is healed.
        kills: something is killed, so that repeats are allowed.
        sees: what a user sees, for docs/failures.md.
        load: the requests meanwhile.
        workers: how many serve at the start.
        model: code of the model.
        batch: its `max_batch_size`.
        keys: further keys of its model.yaml.
        variable: its shapes are not told, so that memory is reserved as batches need it.
        environment: of the workers; `{folder}` and `{worker}` stand for the row's folder and the worker's name.
        codes: number of a request -> the code that it must end with; all others end with OK.
        excused: codes that any request may end with, because of this fault.
        proxied: workers reach the broker through a proxy that can fail.
        stores: there is a payload store, which can fail, for what is large.
        unverifiable: topics hold too little for `headrace verify` to agree, since the fault deletes some.
        limit_s: most seconds from healing until everything has its outcome.
    """

    name: str
    fault: str
    strike: Strike
    kills: bool = False
    sees: str = ""
    load: Load = Load()
    workers: int = 2
    model: str = DOUBLE
    batch: int = 8
    keys: Mapping[str, object] = {}
    variable: bool = False
    environment: Mapping[str, str] = {}
    codes: Mapping[int, str] = {}
    excused: frozenset[str] = frozenset()
    proxied: bool = False
    stores: bool = False
    unverifiable: bool = False
    limit_s: float = 60.0


class Result(Struct, frozen=True):
    """What came of a row.

    Attributes:
        row: its name.
        sent: requests that were tried to be sent.
        outcomes: requests in the log that have an outcome.
        lost: requests below the committed offset without one.
        seen_twice: requests whose caller was given two answers.
        repeats: replies on the topics beyond the first of each request.
        recovery_s: from healing (from the fault, where nothing is put right by hand) until the last request has its
            outcome that was accepted before it, or that waited more than a second after it.
        breaks: what of the promise was broken, as sentences; empty when it held.
        took_s: seconds that the row took.
    """

    row: str
    sent: int
    outcomes: int
    lost: int
    seen_twice: int
    repeats: int
    recovery_s: float
    breaks: tuple[str, ...]
    took_s: float
