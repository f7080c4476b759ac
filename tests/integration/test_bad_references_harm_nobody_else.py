"""Whatever is wrong with what a request refers to, it ends with a typed error, and all others are answered."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from s3 import Fault, S3Server
from stored_requests import outcomes, publish, refer, row, served, value_of
from worker_rig import until

from producer_sdk import Reply
from producer_sdk.broker import Broker
from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.errors import DeadlineExceeded, InputGone, Internal
from producer_sdk.payloads import Payloads
from producer_sdk.tensors import Tensor
from producer_sdk.testing import MemoryBroker
from producer_sdk.wire import Request
from workers import claims

MAX_FETCH_BYTES = 1 << 20
ODD_KEYS = [
    "in puts/a b",
    "ä/€漢字",
    "a%2Fb",
    "a/b",
    "a%20b+c&d=e?versionId=1#f",
    "~'()*!;:@$,",
    " space at both ends ",
    "..a/b..",
    "ä" * 512,
    "k" * 1024,
]


async def claim(store: Payloads, n: float, width: int = 4_000) -> DataRef:
    return await store.claim(value_of(n, width), expires_ms=2**50, budget_s=20.0)


@pytest.mark.timeout(180)
async def test_a_lane_full_of_references_that_hang_stops_no_other_and_is_answered_when_it_heals(
    prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    broker, elsewhere = MemoryBroker(), s3.new_bucket()
    async with served(broker, prefix, tmp_path, s3, elsewhere) as (proxy, worker, client, store, _):
        put = await store.put(elsewhere, "slow", value_of(1, 2), budget_s=20.0)
        (loop,) = worker.loops
        proxy.inject(Fault(hangs=True), match=f"/{elsewhere}/", times=None)
        await refer(broker, prefix, {f"bulk-{n}": put.ref for n in range(claims.MAX_REQUESTS)}, lane="bulk")
        await until(lambda: len(loop._claims or ()) == claims.MAX_REQUESTS, 30.0)
        reply, small = await asyncio.gather(client.infer("m", row(4)), client.infer("m", row(3, 2)))
        assert (reply.outputs["y"][0, 0], small.outputs["y"].tolist()) == (8, [[6, 6]])
        await publish(broker, prefix, [Request("async", {"x": Tensor.from_array(row(5, 2)["x"])})])
        assert list(await outcomes(broker, prefix, 1)) == ["async"]
        assert len(loop._claims or ()) == claims.MAX_REQUESTS
        proxy.heal()
        await until(lambda: not loop._claims, 90.0)  # a thousand take the server of the tests a while
        told = await outcomes(broker, prefix, 1 + claims.MAX_REQUESTS)
        assert {type(each) for each in told.values()} == {Reply}


async def test_a_bucket_that_is_forbidden_is_the_error_of_its_own_requests(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    forbidden = s3.new_bucket()
    async with served(broker, prefix, tmp_path, s3, forbidden) as (proxy, _, client, store, _):
        put = await store.put(forbidden, "in", value_of(1), budget_s=20.0)
        good = await claim(store, 2)
        proxy.inject(Fault(status=403, code="AccessDenied"), match=f"/{forbidden}/", times=None)
        await refer(broker, prefix, {"good": good, "unreadable": put.ref})
        inputs = {"x": Tensor.from_array(row(3, 2)["x"])}
        await publish(broker, prefix, [Request("unstorable", inputs, store=S3Prefix(forbidden, "out/"))])
        told = await outcomes(broker, prefix, 3)
        assert isinstance(told["good"], Reply)
        assert (await client.infer("m", row(4))).outputs["y"][0, 0] == 8
    assert isinstance(told["unreadable"], InputGone)
    assert "s3:GetObject" in told["unreadable"].message
    assert isinstance(told["unstorable"], Internal)
    assert "Grant s3:PutObject" in told["unstorable"].message


async def test_an_object_that_was_replaced_since_it_was_claimed_is_told_from_what_was_stored(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    async with served(broker, prefix, tmp_path, s3) as (_, _, client, store, bucket):
        refs = {kind: await claim(store, 1) for kind in ("same size", "longer", "gone")}
        s3.client.put_object(Bucket=bucket, Key=refs["same size"].place.key, Body=value_of(7))
        s3.client.put_object(Bucket=bucket, Key=refs["longer"].place.key, Body=value_of(7) + b"!")
        s3.client.delete_object(Bucket=bucket, Key=refs["gone"].place.key)
        await refer(broker, prefix, {kind.replace(" ", "-"): ref for kind, ref in refs.items()})
        told = await outcomes(broker, prefix, 3)
        assert (await client.infer("m", row(4))).outputs["y"][0, 0] == 8
    assert {type(each) for each in told.values()} == {InputGone}
    said = {id: str(each) for id, each in told.items()}
    assert "its sha256 is" in said["same-size"]
    assert f"it has {refs['longer'].nbytes + 1} bytes" in said["longer"]
    assert "NoSuchKey" in said["gone"]


async def test_keys_are_taken_as_they_are_written(broker: Broker, prefix: str, tmp_path: Path, s3: S3Server) -> None:
    async with served(broker, prefix, tmp_path, s3) as (_, _, _, store, bucket):
        refs = {
            f"key-{n}": (await store.put(bucket, key, value_of(n, 2), budget_s=20.0)).ref
            for n, key in enumerate(ODD_KEYS)
        }
        assert s3.keys(bucket) == sorted(ODD_KEYS)
        await refer(broker, prefix, refs)
        told = await outcomes(broker, prefix, len(refs))
    answers = {id: each.outputs["y"].tolist() for id, each in told.items() if isinstance(each, Reply)}
    assert answers == {f"key-{n}": [[2 * n, 2 * n]] for n in range(len(ODD_KEYS))}


@pytest.mark.timeout(180)
async def test_a_store_that_trickles_ends_with_the_deadline_and_leaves_all_room_to_those_behind(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server
) -> None:
    half = MAX_FETCH_BYTES // 8  # numbers, so that two are as much as may be fetched at a time
    limits = {"max_fetch_bytes": MAX_FETCH_BYTES}
    async with served(broker, prefix, tmp_path, s3, **limits) as (proxy, worker, client, store, _):
        ref = await claim(store, 1, half - 100)
        proxy.inject(Fault(bytes_per_s=1000), method="GET", times=None)
        await refer(broker, prefix, {f"slow-{n}": ref for n in range(6)}, int(time.time() * 1000) + 4000)
        (loop,) = worker.loops
        gate = loop._shared.gate
        await until(lambda: proxy.trickled > 0)
        told = await outcomes(broker, prefix, 6)
        assert {type(each) for each in told.values()} == {DeadlineExceeded}
        assert (gate.inside, len(loop._claims or ())) == (0, 0)
        proxy.heal()
        reply = await client.infer("m", row(4, half - 100), deadline_s=60)
        assert reply.outputs["y"][0, 0] == 8
