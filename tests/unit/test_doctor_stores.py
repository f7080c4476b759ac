"""What `headrace doctor` makes of S3 and Redis: what is wrong, and no more than one store's fault for all buckets."""

from pathlib import Path

import pytest

from headrace.doctor_line import State
from headrace.doctor_stores import (
    check_s3,
    judge_artifacts,
    judge_bucket,
    judge_eviction,
    judge_no_redis,
    judge_prefixes,
)
from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.payloads import CheckedStep
from producer_sdk.settings import KafkaSettings
from workers.runners.engine import Artifact, ModelSpec


def test_a_bucket_is_well_or_has_a_line_for_each_step_that_fails() -> None:
    assert judge_bucket("b", [CheckedStep("put", "")], is_for_claims=True)[0].state is State.OK
    (line,) = judge_bucket("b", [CheckedStep("put", "AccessDenied: no"), CheckedStep("get", "")], is_for_claims=False)
    assert (line.state, "s3:PutObject" in line.text) == (State.FAULT, True)


def test_a_right_is_named_only_where_one_is_missing() -> None:
    (line,) = judge_bucket("b", [CheckedStep("put", "NoSuchBucket: no")], is_for_claims=False)
    assert line.text == "Put fails: NoSuchBucket: no."


async def test_no_further_bucket_is_asked_where_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    url = "http://127.0.0.1:1"
    lines = await check_s3(KafkaSettings(s3_endpoint_url=url, s3_buckets=("b-1", "b-2", "b-3")), [], 0.5)
    assert [line.state for line in lines] == [State.FAULT, State.SKIPPED, State.SKIPPED]
    assert lines[0].text == f"Nothing answers at {url}: see HEADRACE_S3_ENDPOINT_URL."


async def test_no_further_bucket_is_asked_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    lines = await check_s3(KafkaSettings(s3_endpoint_url="http://127.0.0.1:1", s3_buckets=("b-1", "b-2")), [], 5.0)
    assert [line.state for line in lines] == [State.FAULT, State.SKIPPED]
    assert "set AWS_ACCESS_KEY_ID" in lines[0].text


def test_a_model_may_not_send_results_to_a_bucket_that_is_not_allowed() -> None:
    own = [ModelSpec("m", "1", Path("/models/m/1"), engine="python", store=S3Prefix("b-1", "x/"))]
    assert judge_prefixes(own, KafkaSettings(s3_buckets=("b-1",))) == []
    assert "HEADRACE_S3_BUCKETS=b-1" in judge_prefixes(own, KafkaSettings())[0].text


@pytest.mark.parametrize(
    ("memory", "state"),
    [
        (None, State.SKIPPED),
        ({"maxmemory": 0, "maxmemory_policy": "noeviction"}, State.NOTE),
        ({"maxmemory": 9, "maxmemory_policy": "noeviction"}, State.NOTE),
        ({"maxmemory": 9, "maxmemory_policy": "allkeys-lru"}, State.NOTE),
        ({"maxmemory": 9, "maxmemory_policy": "volatile-ttl"}, State.OK),
    ],
)
def test_redis_should_forget_old_replies_when_it_is_full(memory: dict[str, object] | None, state: State) -> None:
    assert judge_eviction(memory).state is state


def test_no_redis_is_a_fault_only_where_a_model_wants_one() -> None:
    assert judge_no_redis([]).state is State.SKIPPED
    assert judge_no_redis(["m"]).state is State.FAULT


def test_artifacts_need_a_bucket_of_models() -> None:
    artifact = Artifact("model.onnx.data", DataRef("s3://weights/shard", "ab" * 32))
    own = [ModelSpec("m", "1", Path(), "onnxruntime", artifacts=(artifact,))]
    assert judge_artifacts(own, KafkaSettings(s3_model_buckets=("weights",))) == []
    assert "HEADRACE_S3_MODEL_BUCKETS" in judge_artifacts(own, KafkaSettings(s3_buckets=("weights",)))[0].text
