"""Why a model's artifacts are not fetched: each reason names model, artifact and what to do."""

from pathlib import Path

import pytest

from producer_sdk.dataref import DataRef
from producer_sdk.errors import HeadraceError, InputGone
from producer_sdk.payloads import InputDenied, Misconfigured, PayloadUnavailable
from workers.artifact_fetch import bucket_fault, not_fetched, room_fault
from workers.runners.engine import Artifact, LoadFault

SHARD = Artifact("model.onnx.data", DataRef("s3://weights/shard", "ab" * 32))


def test_room_is_wanted_for_all_that_is_missing() -> None:
    assert room_fault("m", 10, 10, Path("/c")) is None
    fault = room_fault("m", 11, 10, Path("/c"))
    assert fault is not None
    assert "model m need 11 bytes in /c, where 10 are free" in fault
    assert "HEADRACE_CACHE_DIR" in fault


def test_only_buckets_of_models_are_allowed() -> None:
    assert bucket_fault("m", [SHARD], frozenset(["weights"])) is None
    fault = bucket_fault("m", [SHARD], frozenset(["inputs"]))
    assert fault is not None
    assert "artifact model.onnx.data of model m is in bucket weights" in fault
    assert "HEADRACE_S3_MODEL_BUCKETS" in fault


@pytest.mark.parametrize(
    ("err", "kind", "said"),
    [
        (InputGone("s3://weights/shard is gone."), LoadFault.PATH, "is gone: put the right object there"),
        (InputDenied("it may not be read."), LoadFault.PERMISSION, "may not be read"),
        (PayloadUnavailable("Could not get it."), LoadFault.PATH, "see to the store"),
        (Misconfigured("pip install 'headrace[s3]'"), LoadFault.DEPENDENCY, "pip install 'headrace[s3]'"),
    ],
)
def test_what_the_store_says_is_told_with_what_to_do(err: HeadraceError, kind: LoadFault, said: str) -> None:
    failed = not_fetched("m", SHARD, err)
    assert failed.kind is kind
    assert failed.message.startswith("artifact model.onnx.data of model m is not fetched: ")
    assert said in failed.message
