"""What boto3 raises: what passes by itself, what never will, and no credentials in the words for it."""

import pytest

pytest.importorskip("boto3")

import botocore.exceptions as boto
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from producer_sdk._s3_errors import Refusal, get_error, write_error
from producer_sdk._s3_faults import known_faults, refused
from producer_sdk._s3_pool import attempt_s, pause_s
from producer_sdk.broker import Misconfigured
from producer_sdk.dataref import S3Key
from producer_sdk.payloads import InputDenied, InputGone

PLACE = S3Key("bucket", "key")


def answered(status: int, code: str, message: str = "said the store") -> boto.ClientError:
    metadata = {"HTTPStatusCode": status}
    return boto.ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, "GetObject")


@pytest.mark.parametrize(
    ("status", "code", "refusal"),
    [
        (404, "NoSuchKey", Refusal.MISSING),
        (404, "404", Refusal.MISSING),
        (404, "NoSuchBucket", Refusal.MISSING),
        (404, "NoSuchUpload", Refusal.NO_UPLOAD),
        (403, "AccessDenied", Refusal.DENIED),
        (403, "403", Refusal.DENIED),
        (403, "InvalidAccessKeyId", Refusal.WRONG),
        (403, "SignatureDoesNotMatch", Refusal.WRONG),
        (403, "RequestTimeTooSkewed", Refusal.WRONG),
        (400, "ExpiredToken", Refusal.WRONG),
        (400, "KMS.NotFoundException", Refusal.WRONG),
        (301, "PermanentRedirect", Refusal.WRONG),
        (412, "PreconditionFailed", Refusal.TAKEN),
        (409, "ConditionalRequestConflict", Refusal.CONFLICT),
        (416, "InvalidRange", Refusal.EMPTY),
        (400, "RequestTimeout", Refusal.AGAIN),
        (400, "BadDigest", Refusal.AGAIN),
        (429, "TooManyRequests", Refusal.AGAIN),
        (500, "InternalError", Refusal.AGAIN),
        (503, "SlowDown", Refusal.AGAIN),
        (503, "503", Refusal.AGAIN),
        (501, "NotImplemented", Refusal.WRONG),
    ],
)
def test_an_answer_is_what_its_code_says_or_else_its_status(status: int, code: str, refusal: Refusal) -> None:
    assert refused(answered(status, code)).refusal is refusal


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (boto.EndpointConnectionError(endpoint_url="http://s3"), Refusal.AGAIN),
        (boto.ConnectTimeoutError(endpoint_url="http://s3"), Refusal.AGAIN),
        (boto.ReadTimeoutError(endpoint_url="http://s3"), Refusal.AGAIN),
        (boto.ConnectionClosedError(endpoint_url="http://s3"), Refusal.AGAIN),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), Refusal.AGAIN),
        (boto.SSLError(endpoint_url="http://s3", error="CERTIFICATE_VERIFY_FAILED"), Refusal.WRONG),
        (boto.NoCredentialsError(), Refusal.WRONG),
        (boto.ParamValidationError(report="a non-ascii value"), Refusal.WRONG),
        (ProtocolError("broken"), Refusal.AGAIN),
        (ConnectionResetError("reset"), Refusal.AGAIN),
    ],
)
def test_a_failure_without_answer_passes_unless_it_is_ours(error: Exception, refusal: Refusal) -> None:
    assert isinstance(error, known_faults())
    assert refused(error).refusal is refusal


def test_access_keys_are_not_repeated() -> None:
    words = refused(answered(403, "InvalidAccessKeyId", "AKIAIOSFODNN7EXAMPLE is not known")).reason
    assert words == "InvalidAccessKeyId: *** is not known"


def test_missing_and_forbidden_inputs_are_told_apart() -> None:
    missing = get_error(refused(answered(404, "NoSuchKey")), PLACE)
    denied = get_error(refused(answered(403, "AccessDenied")), PLACE)
    assert (type(missing), type(denied)) == (InputGone, InputDenied)
    assert "s3://bucket/key is gone: NoSuchKey" in missing.message
    assert "s3:GetObject is not granted" in denied.message


def test_a_refused_write_names_the_right_that_it_takes() -> None:
    error = write_error(refused(answered(403, "AccessDenied")), "put s3://bucket/key", "s3:PutObject")
    assert isinstance(error, Misconfigured)
    assert error.message.endswith("Grant s3:PutObject on the bucket.")


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_are_bounded_and_never_negative(tries: int, chance: float) -> None:
    assert 0 <= pause_s(tries, chance) <= 5.0


def test_pauses_grow_and_are_spread_from_nothing() -> None:
    assert [pause_s(tries, 1.0) for tries in (1, 2, 3)] == [0.2, 0.4, 0.8]
    assert pause_s(3, 0.0) == 0.0


@given(st.floats(0.001, 1e5))
def test_a_slow_try_leaves_time_for_another_where_there_is_enough(left_s: float) -> None:
    assert 0 < attempt_s(left_s) <= left_s
    assert left_s <= 20 or attempt_s(left_s) <= left_s / 2
