"""A result that is stored stands: a second, different answer is dropped, and its pointer names the first."""

from collections.abc import AsyncIterator

import pytest
from payload_rig import LARGE, PATIENT_S, SMALL, Rig, rigged
from s3 import Fault, S3Server

from producer_sdk.payloads import Misconfigured, Stored

SIZES = [SMALL, LARGE]


@pytest.fixture
async def rig(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with rigged(s3, monkeypatch) as rig:
        yield rig


async def result(rig: Rig, data: bytes) -> Stored:
    return await rig.payloads.put(
        rig.bucket, "results/job-1.json", data, metadata={"headrace-id": "job-1"}, only_new=True, budget_s=PATIENT_S
    )


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_answer_stands_and_the_pointer_names_it(rig: Rig, size: int) -> None:
    first = await result(rig, b"1" * size)
    second = await result(rig, b"2" * (size + 1))
    assert (first.existed, second.existed, second.ref) == (False, True, first.ref)
    assert rig.s3.data(rig.bucket, "results/job-1.json") == b"1" * size


@pytest.mark.parametrize("size", SIZES)
async def test_an_answer_whose_confirmation_was_lost_is_found_again(rig: Rig, size: int) -> None:
    method, match = ("PUT", "") if size == SMALL else ("POST", "uploadId")
    rig.proxy.inject(Fault(loses_answer=True), method=method, match=match)
    stored = await result(rig, b"1" * size)
    assert stored.ref.nbytes == size
    assert await rig.read(stored.ref) == b"1" * size


async def test_a_large_answer_that_comes_second_is_not_sent(rig: Rig) -> None:
    await result(rig, b"1")
    rig.proxy.asked.clear()
    assert (await result(rig, b"2" * LARGE)).existed
    assert not [each for each in rig.proxy.asked if each.startswith(("PUT", "POST"))]


async def test_who_comes_while_an_upload_runs_stands_too(rig: Rig) -> None:
    def overtaken(body: bytes) -> bytes:
        rig.s3.client.put_object(Bucket=rig.bucket, Key="results/job-1.json", Body=b"theirs")
        return body

    rig.proxy.inject(Fault(change=overtaken), method="PUT", match="partNumber=3")
    stored = await result(rig, b"ours" * LARGE)
    assert (stored.existed, stored.ref.sha256, stored.ref.nbytes) == (True, "", 6)
    assert rig.s3.data(rig.bucket, "results/job-1.json") == b"theirs"


@pytest.mark.parametrize("size", SIZES)
async def test_two_writers_at_once_are_told_to_try_again(rig: Rig, size: int) -> None:
    method, match = ("PUT", "") if size == SMALL else ("POST", "uploadId")
    rig.proxy.inject(Fault(status=409, code="ConditionalRequestConflict"), method=method, match=match)
    assert not (await result(rig, b"1" * size)).existed
    assert rig.s3.data(rig.bucket, "results/job-1.json") == b"1" * size


async def test_metadata_of_the_caller_is_kept_beside_the_checksum(rig: Rig) -> None:
    stored = await result(rig, b"1")
    head = rig.s3.client.head_object(Bucket=rig.bucket, Key="results/job-1.json")
    assert head["Metadata"] == {"headrace-id": "job-1", "headrace-sha256": stored.ref.sha256}


async def test_a_store_without_conditional_puts_is_said_to_be_one(rig: Rig) -> None:
    rig.proxy.inject(Fault(status=501, code="NotImplemented"), times=None)
    with pytest.raises(Misconfigured, match="knows no conditional put"):
        await result(rig, b"1")
