"""References: what is written is read again, and no text names an object that it does not seem to name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.dataref import DataRef, S3Key, S3Prefix, is_s3_uri
from producer_sdk.errors import InvalidRequest

BUCKETS = st.from_regex(r"\A[a-z0-9][a-z0-9-]{1,61}[a-z0-9]\Z")
SEGMENTS = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="/\\"), min_size=1, max_size=12)
KEYS = st.lists(SEGMENTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4).map("/".join)
REFS = st.builds(
    lambda bucket, key, sha256, nbytes, expires_ms: DataRef(f"s3://{bucket}/{key}", sha256, nbytes, expires_ms),
    BUCKETS,
    KEYS.filter(lambda key: key.isprintable()),
    st.sampled_from(["", "0f" * 32]),
    st.integers(-1, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
)


@given(REFS)
def test_what_is_written_is_read_again(ref: DataRef) -> None:
    assert DataRef.from_fields(ref.fields()) == ref
    assert msgspec.json.decode(msgspec.json.encode(ref), type=DataRef) == ref
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(ref)) == ref.fields()


@given(REFS)
def test_a_place_says_again_the_uri_that_it_was_read_from(ref: DataRef) -> None:
    assert str(ref.place) == ref.uri
    assert S3Key.parse(ref.uri) == ref.place


@given(st.text(max_size=40))
def test_a_key_that_is_taken_stays_under_its_bucket(text: str) -> None:
    try:
        place = S3Key.parse(f"s3://bucket/{text}")
    except InvalidRequest:
        return
    assert (place.bucket, place.key) == ("bucket", text)
    assert text.isprintable()
    assert not {"", ".", ".."} & set(text.split("/"))


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "key",
        "s3:/bucket/key",
        "S3://bucket/key",
        " s3://bucket/key",
        "s3://bucket",
        "s3://bucket/",
        "s3:///key",
        "s3://bu/key",
        "s3://Bucket/key",
        "s3://user@bucket/key",
        "s3://bucket:80/key",
        "s3://127.0.0.1/key",
        "s3://buck..et/key",
        "s3://bucket/../other/key",
        "s3://bucket/a/./b",
        "s3://bucket//key",
        "s3://bucket/key/",
        "s3://bucket/a\\..\\b",
        "s3://bucket/key\n",
        "s3://bucket/a\x00b",
        "s3://bucket/a\u202eb",
        "s3://bucket/\ud800",
        "s3://bucket/" + "k" * 1025,
        "s3://bucket/" + "ä" * 513,
    ],
)
def test_other_texts_are_no_references(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        DataRef(uri)


@pytest.mark.parametrize("scheme", ["https", "file", "gs", "s3a"])
def test_other_schemes_are_refused_by_name(scheme: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"{scheme}: is not supported"):
        DataRef(f"{scheme}://bucket/key")


def test_what_looks_like_an_escape_or_a_query_is_part_of_the_key() -> None:
    assert DataRef("s3://bucket/a%2e%2e/b?versionId=1#c").place.key == "a%2e%2e/b?versionId=1#c"


def test_a_key_may_have_1024_bytes() -> None:
    assert len(DataRef("s3://bucket/" + "ä" * 512).place.key.encode()) == 1024


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"dataref": 1},
        {"dataref": "s3://bucket/key", "sha256": "abc"},
        {"dataref": "s3://bucket/key", "sha256": 1},
        {"dataref": "s3://bucket/key", "bytes": -2},
        {"dataref": "s3://bucket/key", "bytes": "3"},
        {"dataref": "s3://bucket/key", "bytes": 2**63},
        {"dataref": "s3://bucket/key", "expires_ms": -1},
        {"dataref": "s3://bucket/key", "expires_ms": 1.5},
    ],
)
def test_a_bad_field_is_an_invalid_request(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        DataRef.from_fields(fields)


def test_other_keys_and_the_case_of_a_checksum_do_not_matter() -> None:
    fields = {"dataref": "s3://bucket/key", "sha256": "AB" * 32, "expires_ms": None, "bytes": None, "id": 3}
    assert DataRef.from_fields(fields) == DataRef("s3://bucket/key", "ab" * 32)


def test_a_reference_expires_at_its_moment() -> None:
    ref = DataRef("s3://bucket/key", expires_ms=1000)
    assert (ref.expired(999), ref.expired(1000)) == (False, True)
    assert not DataRef("s3://bucket/key").expired(2**62)


@pytest.mark.parametrize(("uri", "key"), [("s3://bucket/", "job-1.json"), ("s3://bucket/a/b/", "a/b/job-1.json")])
def test_results_go_under_their_prefix(uri: str, key: str) -> None:
    prefix = S3Prefix.parse(uri)
    assert (str(prefix), prefix.key("job-1.json")) == (uri, S3Key("bucket", key))


@pytest.mark.parametrize(
    "uri", ["s3://bucket", "s3://bucket/a", "s3://bucket//", "s3://bucket/../", "topic", "https://a/"]
)
def test_a_prefix_is_a_folder_of_a_bucket(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        S3Prefix.parse(uri)


def test_an_address_in_a_bucket_is_told_from_a_topic() -> None:
    assert is_s3_uri("s3://bucket/a/")
    assert not is_s3_uri("headrace.m.results")
