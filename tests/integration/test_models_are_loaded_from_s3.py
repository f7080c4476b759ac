"""A model whose weights are shards in S3 is fetched, checked and served; what is wrong there is never loaded."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
import yaml
from model_folders import FLOAT_IN, FLOAT_OUT, doubling_onnx, python_model
from runner_rig import batch, floats, output, work
from s3 import Fault, FaultyS3, S3Server, faulty
from stored_model import Stored
from worker_rig import running_worker, until, worker_settings

from producer_sdk import Client
from producer_sdk.announcements import ModelState
from producer_sdk.testing import MemoryBroker
from workers.artifact_cache import ArtifactCache
from workers.drain import Exit
from workers.models import find_models
from workers.runners.engine import LoadFault
from workers.runners.runner import Runner
from workers.serve import Worker

WIDE = 70_000  # shards of 9 MB, which come in two parts
ROW = np.arange(64, dtype=np.float16).reshape(1, -1)
SUMMING = """
class Model:
    def load(self, context):
        self.size = (context.folder / "spread.bin").stat().st_size

    def predict(self, inputs):
        return {"y": inputs["x"] + self.size}
"""
RIGHT = ROW * np.arange(1, 65, dtype=np.float16)


async def answered(runner: Runner) -> bool:
    """Whether it answers right."""
    runner.place(0, batch(work({"x": ROW})))
    return bool((output(await runner.run(0, 0, 1)) == RIGHT).all())


@pytest.fixture
def stored(s3: S3Server, tmp_path: Path) -> Stored:
    return Stored(s3, tmp_path)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultyS3]:
    with faulty(s3) as proxy:
        yield proxy


async def test_a_half_precision_model_whose_shards_are_in_s3_is_served(
    s3: S3Server, proxy: FaultyS3, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, broker = Stored(s3, tmp_path, WIDE), MemoryBroker()
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(stored.cache))
    for gone in (False, True):  # the second start has the cache alone
        proxy.gone = gone
        settings = {"s3_endpoint_url": proxy.url, "s3_model_buckets": (stored.bucket,)}
        async with running_worker(broker, stored.models, prefix, **settings), Client(broker, prefix=prefix) as client:
            reply = await client.infer("m", {"x": ROW})
            assert (reply.outputs["y"] == RIGHT).all()
    assert sum("spread.bin bytes=" in asked for asked in proxy.asked) == 2
    assert stored.left() == []


@pytest.mark.parametrize("fault", [Fault(cut_at=1000), Fault(status=503), Fault(change=lambda body: b"x" + body[1:])])
async def test_a_download_that_is_cut_or_garbled_is_tried_again(stored: Stored, proxy: FaultyS3, fault: Fault) -> None:
    proxy.inject(fault, method="GET", match="spread.bin")
    async with stored.started(proxy.url) as runner:
        assert await answered(runner)


async def test_a_python_model_finds_its_artifacts_in_its_folder(stored: Stored) -> None:
    python_model(stored.models, "p", SUMMING, inputs=[FLOAT_IN], outputs=[FLOAT_OUT])
    manifest = stored.models / "p" / "model.yaml"
    manifest.write_text(manifest.read_text() + yaml.safe_dump({"artifacts": stored.items(), "isolation": "inline"}))
    async with stored.started(model="p") as runner:
        runner.place(0, batch(floats((1, 2))))
        assert output(await runner.run(0, 0, 1)).tolist() == [[81921, 81922]]


async def test_a_model_that_its_engine_refuses_leaves_nothing(stored: Stored) -> None:
    (stored.models / "m" / "1" / "model.onnx").write_bytes(b"none")
    assert "cannot be opened by onnxruntime" in (await stored.refused()).message


async def test_a_wrong_checksum_is_refused_with_both_and_the_way_out(stored: Stored) -> None:
    stored.write(sha256="0" * 64)
    message = (await stored.refused()).message
    assert "artifact spread.bin of model m is not what model.yaml says" in message
    assert stored.sums["spread.bin"] in message
    assert not (stored.cache / "artifacts" / ("0" * 64)).exists()


async def test_a_wrong_size_is_refused(stored: Stored) -> None:
    stored.write(bytes=7)
    assert "it has 81920 bytes, and must have 7" in (await stored.refused()).message


@pytest.mark.parametrize("known_size", [True, False])
async def test_a_missing_object_is_named(stored: Stored, known_size: bool) -> None:
    stored.write(uri=f"s3://{stored.bucket}/absent", **({"bytes": 7} if known_size else {}))
    failed = await stored.refused()
    assert failed.kind is LoadFault.PATH
    assert "artifact spread.bin of model m is not fetched" in failed.message
    assert "/absent is gone" in failed.message


async def test_a_forbidden_object_is_told_with_the_right_that_is_missing(stored: Stored, proxy: FaultyS3) -> None:
    proxy.inject(Fault(status=403, code="AccessDenied"), times=None)
    failed = await stored.refused(proxy.url)
    assert failed.kind is LoadFault.PERMISSION
    assert "s3:GetObject is not granted" in failed.message


async def test_a_store_that_is_gone_ends_the_start_in_time(stored: Stored, proxy: FaultyS3) -> None:
    proxy.gone = True
    message = (await stored.refused(proxy.url, timeout_s=0.5)).message
    assert "artifact spread.bin of model m is not fetched: Could not look at" in message
    assert "HEADRACE_S3_ENDPOINT_URL" in message


async def test_other_buckets_are_not_asked(stored: Stored, proxy: FaultyS3) -> None:
    stored.write(uri="s3://another-bucket/shard")
    failed = await stored.refused(proxy.url)
    assert "HEADRACE_S3_MODEL_BUCKETS" in failed.message
    assert proxy.asked == []


async def test_a_file_of_the_cache_that_was_spoilt_is_never_loaded(stored: Stored, proxy: FaultyS3) -> None:
    async with stored.started():
        pass
    blob = stored.cache / "artifacts" / stored.sums["spread.bin"]
    blob.unlink()
    blob.write_bytes(bytes(81920))
    async with stored.started(proxy.url) as runner:
        assert await answered(runner)
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == stored.sums["spread.bin"]
    assert [asked for asked in proxy.asked if "gather" in asked] == []


async def test_a_spoilt_cache_without_a_store_loads_nothing(stored: Stored, proxy: FaultyS3) -> None:
    async with stored.started():
        pass
    (stored.cache / "artifacts" / stored.sums["spread.bin"]).unlink()
    (stored.cache / "artifacts" / stored.sums["spread.bin"]).write_bytes(bytes(81920))
    proxy.gone = True
    await stored.refused(proxy.url, timeout_s=0.5)


async def test_several_workers_that_start_at_once_share_a_cache(stored: Stored) -> None:
    async with AsyncExitStack() as stack:
        starts = [stack.enter_async_context(stored.started()) for _ in range(3)]
        assert all([await answered(runner) for runner in await asyncio.gather(*starts)])
    assert sorted(path.name for path in stored.cache.glob("artifacts/*")) == sorted(stored.sums.values())


async def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
    stored: Stored, proxy: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArtifactCache, "free_bytes", lambda cache: 163839)
    assert "need 163840 bytes" in (await stored.refused(proxy.url)).message
    assert [asked for asked in proxy.asked if asked.startswith("GET")] == []


async def test_without_boto3_it_is_said_what_to_install(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    failed = await stored.refused()
    assert failed.kind is LoadFault.DEPENDENCY
    assert "pip install 'headrace[s3]'" in failed.message


async def test_a_long_fetch_says_how_far_it_is(
    stored: Stored, proxy: FaultyS3, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.artifact_fetch.TELL_S", 0.01)
    proxy.inject(Fault(bytes_per_s=400_000.0), method="GET", match="spread.bin")
    with caplog.at_level(logging.INFO, "headrace.worker"):
        async with stored.started(proxy.url):
            pass
    assert "Fetching spread.bin of model m: 0 of 0 MiB" in caplog.text


async def test_a_start_that_is_given_up_leaves_nothing(stored: Stored, proxy: FaultyS3) -> None:
    proxy.inject(Fault(hangs=True), method="GET", match="spread.bin")
    (spec,) = find_models(stored.models, ["m"])
    async with stored.artifacts(proxy.url) as artifacts:
        start = asyncio.create_task(artifacts.lay_out(spec))
        await until(lambda: any(asked.startswith("GET") for asked in proxy.asked))
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert stored.left() == []


async def test_a_signal_ends_a_worker_that_fetches(
    stored: Stored, proxy: FaultyS3, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(stored.cache))
    proxy.inject(Fault(bytes_per_s=1000.0), method="GET", match="spread.bin")
    settings = worker_settings(
        stored.models, prefix, s3_endpoint_url=proxy.url, s3_model_buckets=(stored.bucket,), endpoint_lag_s=600.0
    )
    worker = Worker(settings, MemoryBroker())
    serving = asyncio.create_task(worker.serve())
    await until(lambda: proxy.trickled > 0)
    worker.stop.signalled()
    assert await serving is Exit.CLEAN
    assert stored.left() == []


async def test_a_model_that_is_not_to_be_had_leaves_the_others_serving(
    stored: Stored, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(stored.cache))
    doubling_onnx(stored.models, "other")
    stored.write(uri=f"s3://{stored.bucket}/absent")
    settings = worker_settings(stored.models, prefix, s3_endpoint_url=stored.s3.url, s3_model_buckets=(stored.bucket,))
    broker = MemoryBroker()
    worker = Worker(settings, broker)
    serving = asyncio.create_task(worker.serve())
    await until(lambda: worker.health.started)
    standing = {loop.spec.name: loop.standing() for loop in worker.loops}
    assert standing["m"][0] is ModelState.UNAVAILABLE
    assert "artifact spread.bin of model m is not fetched" in standing["m"][1]
    async with Client(broker, prefix=prefix) as client:
        reply = await client.infer("other", {"x": np.array([[1, 2]], np.float32)})
        assert reply.outputs["y"].tolist() == [[2, 4]]
    worker.stop.signalled()
    assert await serving is Exit.CLEAN
