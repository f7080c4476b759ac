"""What is read is what the reference says, whole and of one version, or an error that says what is wrong with it."""

import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from payload_rig import LARGE, PART, PATIENT_S, SMALL, Rig, rigged
from s3 import Fault, S3Server

from producer_sdk.dataref import DataRef
from producer_sdk.errors import InvalidRequest, PayloadTooLarge
from producer_sdk.payloads import InputDenied, InputGone, Misconfigured


@pytest.fixture
async def rig(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with rigged(s3, monkeypatch) as rig:
        yield rig


async def test_what_is_stored_is_read_again(rig: Rig) -> None:
    for size in (0, 1, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 1, LARGE):
        ref, data = await rig.stored(size)
        assert (ref.nbytes, await rig.read(ref)) == (size, data)
        assert await rig.read(DataRef(ref.uri)) == data


async def test_a_claim_check_says_its_checksum_and_expiry_in_its_metadata(rig: Rig) -> None:
    expires_ms = int(time.time() * 1000) + 60_000
    ref = await rig.payloads.claim(memoryview(b"input"), expires_ms=expires_ms, budget_s=PATIENT_S)
    head = rig.s3.client.head_object(Bucket=rig.bucket, Key=ref.place.key)
    assert head["Metadata"] == {"headrace-sha256": ref.sha256, "headrace-expires-ms": str(expires_ms)}
    assert await rig.read(ref) == b"input"


async def test_wrong_bytes_are_refused_after_a_second_look(rig: Rig) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.s3.client.put_object(Bucket=rig.bucket, Key=ref.place.key, Body=b"x" * SMALL)
    with pytest.raises(InputGone, match="is not what was stored: its sha256 is"):
        await rig.read(ref)
    assert sum(each.startswith("GET") for each in rig.proxy.asked) == 2


async def test_the_checksum_in_the_metadata_counts_where_the_reference_has_none(rig: Rig) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.proxy.inject(Fault(change=lambda body: b"x" * len(body)), times=None, method="GET")
    with pytest.raises(InputGone, match=f"must be {ref.sha256}"):
        await rig.read(DataRef(ref.uri))


async def test_another_size_is_refused_before_it_is_read(rig: Rig) -> None:
    ref, _ = await rig.stored(LARGE)
    with pytest.raises(InputGone, match=f"it has {LARGE} bytes, and must have 5"):
        await rig.read(msgspec.structs.replace(ref, nbytes=5))
    assert sum(each.startswith("GET") for each in rig.proxy.asked) == 1


@pytest.mark.parametrize("knows_size", [True, False])
async def test_more_than_the_caller_takes_is_not_read(rig: Rig, knows_size: bool) -> None:
    ref, _ = await rig.stored(LARGE)
    rig.proxy.asked.clear()
    rig.proxy.inject(Fault(bytes_per_s=1), times=None)
    ref = ref if knows_size else DataRef(ref.uri)
    with pytest.raises(PayloadTooLarge, match=f"has {LARGE} bytes; at most {LARGE - 1}"):
        await rig.payloads.get(ref, budget_s=PATIENT_S, max_bytes=LARGE - 1)
    assert len(rig.proxy.asked) == (0 if knows_size else 1)


async def test_an_object_that_changes_while_it_is_read_is_never_mixed(rig: Rig) -> None:
    # Somebody else's: no checksum tells one version from the other.
    rig.s3.client.put_object(Bucket=rig.bucket, Key="a", Body=b"o" * LARGE)

    def overwrite(body: bytes) -> bytes:
        rig.s3.client.put_object(Bucket=rig.bucket, Key="a", Body=b"n" * LARGE)
        return body

    rig.proxy.inject(Fault(change=overwrite), method="GET", match="bytes=0-")
    assert await rig.read(DataRef(f"s3://{rig.bucket}/a")) == b"n" * LARGE


async def test_an_expired_reference_is_gone_without_asking_the_store(rig: Rig) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.proxy.asked.clear()
    with pytest.raises(InputGone, match="expired at"):
        await rig.read(msgspec.structs.replace(ref, expires_ms=1000))
    assert not rig.proxy.asked


async def test_a_missing_object_is_gone_by_name(rig: Rig) -> None:
    with pytest.raises(InputGone, match=f"s3://{rig.bucket}/none is gone: NoSuchKey"):
        await rig.read(DataRef(f"s3://{rig.bucket}/none"))


async def test_a_forbidden_object_is_told_apart(rig: Rig) -> None:
    ref, _ = await rig.stored(SMALL)
    rig.proxy.inject(Fault(status=403, code="AccessDenied"), times=None)
    with pytest.raises(InputDenied, match="s3:GetObject is not granted"):
        await rig.read(ref)


async def test_refused_credentials_are_a_matter_of_settings(rig: Rig) -> None:
    rig.proxy.inject(Fault(status=403, code="InvalidAccessKeyId"), times=None)
    with pytest.raises(Misconfigured, match="InvalidAccessKeyId") as caught:
        await rig.stored(SMALL)
    assert "AKIA" not in str(caught.value) + repr(rig.payloads)


async def test_other_buckets_are_not_touched(rig: Rig) -> None:
    other = rig.s3.new_bucket()
    with pytest.raises(InvalidRequest, match="not one of the buckets in HEADRACE_S3_BUCKETS"):
        await rig.read(DataRef(f"s3://{other}/a"))
    with pytest.raises(InvalidRequest):
        await rig.payloads.put(other, "a", b"", budget_s=PATIENT_S)
    assert not rig.proxy.asked


async def test_a_store_is_checked_and_left_as_it_was(rig: Rig) -> None:
    steps = await rig.payloads.check(rig.bucket, budget_s=PATIENT_S)
    assert [(step.name, step.fault) for step in steps] == [
        ("put", ""),
        ("get", ""),
        ("conditional put", ""),
        ("delete", ""),
    ]
    assert rig.s3.keys(rig.bucket) == []


async def test_a_sweep_finds_and_deletes_what_is_there(rig: Rig) -> None:
    ref = await rig.payloads.claim(b"input", expires_ms=1000, budget_s=PATIENT_S)
    page = await rig.payloads.list(rig.bucket, "claims/", budget_s=PATIENT_S)
    assert [(each.key, each.nbytes) for each in page.objects] == [(ref.place.key, 5)]
    assert await rig.payloads.expiries_ms(rig.bucket, [ref.place.key, "none"], budget_s=PATIENT_S) == [1000, None]
    deleted = await rig.payloads.delete(rig.bucket, [ref.place.key, "none"], budget_s=PATIENT_S)
    assert deleted.keys == (ref.place.key, "none")
    assert rig.s3.keys(rig.bucket) == []
