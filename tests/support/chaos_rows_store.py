"""The row about the store of large payloads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from chaos_load import MAPPED_EVERY, MODEL
from chaos_row import Load, Row
from chaos_stage import Stage

from producer_sdk.broker import Outgoing
from producer_sdk.dataref import DataRef
from producer_sdk.payloads import Payloads
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Request, encode_request

GONE_S = 30.0
REFERRING = 200  # requests whose inputs were stored before the store went
LARGE_WIDTH = 40_000  # numbers, 160 kB: its inputs go to the store, and so does its result
HOUR_MS = 3_600_000


async def lose_store(stage: Stage) -> None:
    """Connections to the store are reset for 30 s, while large requests, small ones and references to it arrive."""
    assert stage.store is not None
    refs = await _stored(stage)
    stage.store.proxy.gone = True
    ends = time.monotonic() + GONE_S
    first = stage.callers.sent
    await _publish(stage, refs)
    await asyncio.sleep(GONE_S / 2)
    small, large = _apart(stage, first, stage.callers.sent)
    stage.expect(await stage.until(lambda: _answered(stage, small) == len(small), 60.0), "small requests had to wait")
    stage.expect(_answered(stage, large) == 0, "large requests went by a store that was gone")
    stage.expect(_answered(stage, _names(len(refs))) == 0, "references were followed to a store that was gone")
    await asyncio.sleep(max(0.0, ends - time.monotonic()))
    stage.store.proxy.heal()


def _names(count: int) -> list[str]:
    return [f"s{n}" for n in range(count)]


async def _stored(stage: Stage) -> Sequence[DataRef]:
    """Inputs of requests to come."""
    assert stage.store is not None
    payloads, expires_ms = Payloads(stage.store.settings), int(time.time() * 1000) + HOUR_MS
    inputs = {"x": Tensor.from_array(stage.callers.inputs(1)["x"])}
    try:
        return [
            await payloads.claim(encode_request(Request(name, inputs)), expires_ms=expires_ms, budget_s=30.0)
            for name in _names(REFERRING)
        ]
    finally:
        await payloads.close()


async def _publish(stage: Stage, refs: Sequence[DataRef]) -> None:
    """Requests that refer to these inputs."""
    producer = stage.broker.producer()
    await producer.start()
    try:
        for name, ref in zip(_names(len(refs)), refs, strict=True):
            record = Outgoing(name.encode(), encode_request(Request(name, {}, ref=ref)))
            await (await producer.publish(stage.topics.requests(MODEL, "async"), record))
            stage.callers.accepted_at[name] = time.monotonic()
    finally:
        await producer.stop()


def _apart(stage: Stage, first: int, end: int) -> tuple[list[str], list[str]]:
    """Small and large requests among those sent in between; ids of mapped ones are not known."""
    numbers = [n for n in range(first, end) if n % MAPPED_EVERY]
    large = [f"r{n}" for n in numbers if stage.callers.is_large(n)]
    return [f"r{n}" for n in numbers if not stage.callers.is_large(n)], large


def _answered(stage: Stage, ids: Sequence[str]) -> int:
    assert stage.watch is not None
    return sum(id in stage.callers.answers or id in stage.watch.first_at for id in ids)


STORE_ROWS = (
    Row("store-gone", f"connections to S3 are reset for {GONE_S:g} s, while large and small requests arrive",
        lose_store, load=Load(rate_per_s=20.0, large_every=3, large_width=LARGE_WIDTH), stores=True, variable=True,
        limit_s=90.0, sees="Large requests and results wait for as long; small ones do not."),
)  # fmt: skip
