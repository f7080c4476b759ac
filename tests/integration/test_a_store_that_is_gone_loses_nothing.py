"""While S3 is gone each request still ends once, right or with a typed error, and who needs no S3 does not notice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
from s3 import S3Server
from stored_requests import outcomes, refer, row, served, value_of
from worker_rig import committed

from producer_sdk import Reply
from producer_sdk.broker import Broker
from producer_sdk.errors import DeadlineExceeded
from producer_sdk.payloads import PayloadUnavailable

MANY = 25


@pytest.mark.timeout(180)
async def test_all_end_right_or_with_a_typed_error_and_small_ones_do_not_wait(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    async with served(broker, prefix, tmp_path, s3) as (proxy, _, client, store, _):
        await client.infer("m", row(0, 2))
        refs = [await store.claim(value_of(n), expires_ms=2**50, budget_s=20.0) for n in range(MANY)]
        proxy.gone = True
        soon_ms = int(time.time() * 1000) + 1000
        await refer(broker, prefix, {f"patient-{n}": ref for n, ref in enumerate(refs)})
        await refer(broker, prefix, {f"hasty-{n}": ref for n, ref in enumerate(refs)}, soon_ms)
        patient = [asyncio.create_task(client.infer("m", row(n), deadline_s=90)) for n in range(MANY)]
        hasty = [asyncio.create_task(client.infer("m", row(n), deadline_s=0.5)) for n in range(MANY)]
        replies = await asyncio.gather(*(client.infer("m", row(n, 2), deadline_s=60) for n in range(MANY)))
        assert [reply.outputs["y"].tolist() for reply in replies] == [[[2 * n, 2 * n]] for n in range(MANY)]
        late = await asyncio.gather(*hasty, return_exceptions=True)
        assert {type(each) for each in late} <= {DeadlineExceeded, PayloadUnavailable}
        told = await outcomes(broker, prefix, MANY)
        assert {(id.partition("-")[0], type(each)) for id, each in told.items()} == {("hasty", DeadlineExceeded)}
        assert not any(each.done() for each in patient)

        proxy.heal()
        for n, reply in enumerate(await asyncio.gather(*patient)):
            np.testing.assert_array_equal(reply.outputs["y"], row(2 * n)["x"])
        told = await outcomes(broker, prefix, 2 * MANY)
        for n in range(MANY):
            pointer = told[f"patient-{n}"]
            assert isinstance(pointer, Reply)
            np.testing.assert_array_equal((await client.resolve(pointer)).outputs["y"], row(2 * n)["x"])
        ends = 1 + 4 * MANY  # records: hasty calls of the client were never published
        while sum((await committed(broker, prefix)).values()) < ends:
            pass
        assert sum((await committed(broker, prefix)).values()) == ends
