"""`headrace payloads sweep`: what has expired goes, only when asked to, and nothing else does."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_payloads import CLAIM_BUCKET, FakeObject, FakePayloads
from typer.testing import CliRunner

from headrace.cli import app
from headrace.payload_sweep import Swept, sweep
from producer_sdk._s3_pool import Budget
from producer_sdk.claim_keys import DAY_MS, claim_key
from producer_sdk.payload_settings import PayloadSettings
from producer_sdk.payloads import Deleted, Listing, Payloads, S3Settings

NOW_MS = 1_800_000_000_000
run = CliRunner().invoke


def held(payloads: FakePayloads, expires_ms: int) -> str:
    """The uri of a claim check that expires then."""
    uri = f"s3://{CLAIM_BUCKET}/{claim_key(expires_ms)}"
    payloads.objects[uri] = FakeObject(b"x" * 10, expires_ms=expires_ms)
    return uri


async def swept(payloads: Payloads, *, deletes: bool) -> Swept:
    return await sweep(payloads, CLAIM_BUCKET, NOW_MS, deletes=deletes, progress=lambda sofar: None)


async def test_a_dry_run_counts_and_deletes_nothing() -> None:
    payloads = FakePayloads()
    for age_ms in (1, DAY_MS, 40 * DAY_MS):
        held(payloads, NOW_MS - age_ms)
    found = await swept(payloads, deletes=False)
    assert (found.expired, found.bytes, found.oldest_ms) == (3, 30, NOW_MS - 40 * DAY_MS)
    assert (found.deleted, len(payloads.objects)) == (0, 3)


async def test_what_has_expired_is_deleted_and_nothing_else() -> None:
    payloads = FakePayloads()
    held(payloads, NOW_MS - 1)
    held(payloads, NOW_MS - 2 * DAY_MS)
    kept = {held(payloads, NOW_MS + 1), held(payloads, NOW_MS + 9 * DAY_MS)}
    payloads.objects["s3://claims/results/a"] = FakeObject(b"", expires_ms=1)
    found = await swept(payloads, deletes=True)
    assert found.deleted == 2
    assert payloads.objects.keys() == kept | {"s3://claims/results/a"}


@pytest.mark.parametrize("expires_ms", [None, NOW_MS + 5 * DAY_MS])
async def test_the_metadata_decides_and_not_the_day_in_the_key(expires_ms: int | None) -> None:
    payloads = FakePayloads()
    uri = held(payloads, NOW_MS - 3 * DAY_MS)
    payloads.objects[uri].expires_ms = expires_ms
    found = await swept(payloads, deletes=True)
    assert (found.deleted, found.unknown) == (0, 1 if expires_ms is None else 0)
    assert uri in payloads.objects


async def test_keys_of_another_kind_are_left_alone() -> None:
    payloads = FakePayloads()
    payloads.objects["s3://claims/claims/mine.bin"] = FakeObject(b"", expires_ms=1)
    found = await swept(payloads, deletes=True)
    assert (found.unknown, found.first_unknown) == (1, "claims/mine.bin")
    assert payloads.objects


async def test_pages_follow_each_other_and_progress_is_told() -> None:
    payloads = FakePayloads()
    for age in range(250):
        held(payloads, NOW_MS - age * 60_000)
    told: list[int] = []
    found = await sweep(payloads, CLAIM_BUCKET, NOW_MS, deletes=True, progress=lambda sofar: told.append(sofar.deleted))
    assert (found.deleted, told) == (250, [100, 200, 250])
    assert not payloads.objects


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakePayloads:
    payloads = FakePayloads()
    monkeypatch.setattr(PayloadSettings, "payloads", lambda self: payloads)
    return payloads


def test_the_verb_says_what_yes_would_delete(store: FakePayloads) -> None:
    held(store, int(time.time() * 1000) - 5)
    result = run(app, ["payloads", "sweep", "--s3-claim-bucket", CLAIM_BUCKET])
    assert result.exit_code == 0
    assert "1 expired claim check under s3://claims/claims/, 0.0 MB; it expired " in result.output
    assert "Nothing was deleted: add --yes." in result.output
    assert store.closed


def test_the_verb_deletes_when_told_to(store: FakePayloads) -> None:
    held(store, int(time.time() * 1000) - 5)
    result = run(app, ["payloads", "sweep", "--s3-claim-bucket", CLAIM_BUCKET, "--yes", "--json"])
    document = json.loads(result.output)
    assert (document["deleted"], document["dry_run"], document["refused"]) == (1, False, [])
    assert not store.objects


def test_what_the_store_would_not_delete_fails_the_verb(store: FakePayloads, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*args: object, **options: object) -> Deleted:
        return Deleted((), (("claims/a", "AccessDenied: no"),))

    held(store, int(time.time() * 1000) - 5)
    monkeypatch.setattr(store, "delete", refuse)
    result = run(app, ["payloads", "sweep", "--s3-claim-bucket", CLAIM_BUCKET, "--yes"])
    assert result.exit_code == 1
    assert "claims/a was not deleted: AccessDenied: no." in result.output


def test_a_store_that_does_not_answer_is_waited_for_with_a_word(
    store: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = store.list

    async def late(*args: Any, **options: Any) -> Listing:
        await asyncio.sleep(0.05)
        return await answer(*args, **options)

    monkeypatch.setattr(store, "list", late)
    verb = ["payloads", "sweep", "--s3-claim-bucket", CLAIM_BUCKET]
    assert "Waiting" not in run(app, verb).output
    monkeypatch.setattr("headrace.payloads.WAITING_S", 0.001)
    assert run(app, verb).output.count("Waiting for the store at Amazon ...") == 1


def test_a_sweep_of_no_bucket_is_wrong_usage(store: FakePayloads) -> None:
    assert run(app, ["payloads", "sweep"]).exit_code != 0


class SlowPool:
    """Requests that each take ten seconds, on a clock of its own: `at_once` pass while one does."""

    at_once = 8

    def __init__(self, due: int) -> None:
        self.keys = [claim_key(NOW_MS - 1) for _ in range(due)]
        self.now_s = 0.0
        self.client = self
        self._started = 0

    async def call(self, budget: Budget, work: Callable[[Any], Any], **how: object) -> Any:
        await asyncio.sleep(0)
        self._started += 1
        if self._started % self.at_once == 0:
            self.now_s += 10.0
        if budget.left_s() <= 0:
            raise budget.spent(1, "it is late")
        return work(self)

    def list_objects_v2(self, *, StartAfter: str = "", MaxKeys: int, **asked: str) -> dict[str, Any]:
        later = [key for key in sorted(self.keys) if key > StartAfter]
        modified = datetime.fromtimestamp(0, UTC)
        found = [{"Key": key, "Size": 10, "LastModified": modified} for key in later[:MaxKeys]]
        return {"Contents": found, "IsTruncated": len(later) > MaxKeys}

    def head_object(self, **asked: str) -> dict[str, Any]:
        return {"Metadata": {"headrace-expires-ms": str(NOW_MS - 1)}}

    def delete_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        self.keys.remove(Key)
        return {}

    def list_multipart_uploads(self, **asked: str) -> dict[str, Any]:
        begun = datetime.fromtimestamp(0, UTC)
        return {"Uploads": [{"Key": f"claims//{n}", "UploadId": str(n), "Initiated": begun} for n in range(200)]}

    def abort_multipart_upload(self, **asked: str) -> dict[str, Any]:
        return {}


async def test_a_sweep_of_much_does_not_run_out_of_time_while_the_store_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payloads = Payloads(S3Settings(claim_bucket=CLAIM_BUCKET))
    pool = SlowPool(due=1500)
    monkeypatch.setattr(payloads, "_pool", pool)
    monkeypatch.setattr(Budget.__init__, "__defaults__", (0, lambda: pool.now_s))
    found = await swept(payloads, deletes=True)
    assert (found.deleted, found.uploads, pool.keys) == (1500, 200, [])
    assert pool.now_s > 50 * 60.0  # many times what one request has
