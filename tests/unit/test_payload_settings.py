"""The settings of the payload store: shared by all programs, checked together, without anything secret in them."""

import importlib.util

import pytest

from producer_sdk.broker import Misconfigured
from producer_sdk.payload_settings import PayloadSettings, S3Settings
from producer_sdk.setting import SettingsError
from producer_sdk.settings import KafkaSettings, load_settings


def loaded(**variables: str) -> KafkaSettings:
    environ = {f"HEADRACE_{name.upper()}": value for name, value in variables.items()}
    return load_settings(KafkaSettings, {}, environ, None, frozenset())


def test_variables_make_a_store() -> None:
    settings = loaded(
        s3_endpoint_url="http://minio:9000", s3_buckets="one,two", s3_claim_bucket="claims", claim_check_bytes="4096"
    )
    assert settings.s3() == S3Settings("http://minio:9000", frozenset(["one", "two"]), "claims", 4096)


def test_without_a_bucket_there_is_no_store() -> None:
    assert loaded().s3() is None
    assert loaded().payloads() is None


def test_the_claim_bucket_is_allowed_as_the_others_are() -> None:
    settings = loaded(s3_buckets="one", s3_claim_bucket="claims").s3()
    assert settings is not None
    assert settings.allowed == {"one", "claims"}


def test_buckets_of_models_are_none_of_those_that_requests_may_use() -> None:
    settings = loaded(s3_endpoint_url="http://minio:9000", s3_model_buckets="weights")
    assert settings.s3() is None
    assert settings.model_s3() == S3Settings("http://minio:9000", frozenset(["weights"]))
    assert loaded(s3_buckets="one", s3_claim_bucket="claims").model_s3().allowed == frozenset()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"s3_endpoint_url": "http://minio:9000"}, "set s3_buckets, s3_claim_bucket or s3_model_buckets"),
        ({"s3_kms_key": "k"}, "set s3_buckets or s3_claim_bucket"),
        ({"s3_kms_key": "k", "s3_model_buckets": "weights"}, "s3_kms_key has no effect"),
        ({"s3_model_buckets": "one,two", "s3_buckets": "two"}, "keep models in a bucket of their own"),
        ({"s3_model_buckets": "one", "s3_claim_bucket": "one"}, "s3_model_buckets names one"),
        ({"s3_model_buckets": "One"}, "no name of a bucket"),
        ({"s3_endpoint_url": "minio:9000", "s3_buckets": "one"}, "write http://HOST:PORT"),
        ({"s3_endpoint_url": "http://minio:9000/x", "s3_buckets": "one"}, "write http://HOST:PORT"),
        ({"s3_buckets": "One"}, "no name of a bucket"),
        ({"s3_claim_bucket": "a/b"}, "no name of a bucket"),
        ({"claim_check_bytes": "0"}, "at least 1"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(variables: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        loaded(**variables)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="holds a user name") as caught:
        loaded(s3_endpoint_url="https://me:hunter2@minio:9000", s3_buckets="one")
    assert "hunter2" not in str(caught.value)


def test_boto3_that_is_missing_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"pip install 'headrace\[s3\]'"):
        PayloadSettings(s3_buckets=("one",)).payloads()
