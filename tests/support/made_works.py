"""Requests as they wait in the worker, and run times as somebody would have learned them."""

from __future__ import annotations

import math
from typing import Any

from producer_sdk._read_record import ReadRecord
from producer_sdk.broker import TopicPartition
from producer_sdk.topics import Lane
from producer_sdk.wire import Request
from workers.backlog import Backlog
from workers.batch import BatchRule
from workers.commit import PartitionLedger
from workers.work import Batch, Source, Work

LEDGER = PartitionLedger(TopicPartition("t", 0))
RECORD = ReadRecord("t", 0, 0, 0, None, b"", ())


def work(
    id: str = "a", *, lane: Lane = Lane.ASYNC, rows: int = 1, arrived: float = 0.0, expires: float | None = None,
    bucket: object = (), nbytes: int = 10, ledger: PartitionLedger = LEDGER, alone: bool = False,
    tenant: str | None = None, cost: float | None = None, priority: int = 0, offset: int = 0,
    parameters: dict[str, Any] | None = None,
) -> Work:  # fmt: skip
    request = Request(id, {}, tenant=tenant, parameters=parameters or {})
    return Work(request, Source(ledger, offset), RECORD, lane, rows, nbytes, bucket, arrived, expires, 0, alone,
                cost=float(rows) if cost is None else cost, priority=priority)  # fmt: skip


class Takes:
    """Batches take `fixed_s`, and `row_s` more for each row."""

    def __init__(self, fixed_s: float, row_s: float = 0.0) -> None:
        self.fixed_s, self.row_s = fixed_s, row_s

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        return self.fixed_s + self.row_s * rows


def backlog_of(
    *works: Work, max_requests: int = 100, max_bytes: int = 10_000, rows: int = 32, wait_s: float = 0.01, **kinds: Any
) -> Backlog:
    backlog = Backlog(max_requests, max_bytes, **kinds)
    backlog.rule = BatchRule(rows, max_bytes, wait_s)
    for each in works:
        backlog.add(each)
    return backlog


def ids(batch: Batch) -> list[str]:
    return [each.request.id for each in batch.works]


def all_ids(backlog: Backlog, now: float = 0.0) -> list[str]:
    """What is taken until nothing waits, in order."""
    taken: list[str] = []
    while len(backlog):
        taken += ids(backlog.take(now))
    return taken


def due(backlog: Backlog, now: float = 0.0, *, idle: bool = True, paused: bool = False) -> float:
    return backlog.close_at(now, idle=idle, intake_paused=paused)


AT_ONCE = -math.inf
