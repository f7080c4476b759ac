"""A stored reply comes, or a typed error within the budget, however many others are fetched at the time."""

import asyncio

import pytest
from fake_payloads import RESULT_BUCKET, FakeObject, FakePayloads

from producer_sdk import stored_replies
from producer_sdk.dataref import DataRef
from producer_sdk.payloads import PayloadUnavailable
from producer_sdk.stored_replies import StoredReplies
from producer_sdk.wire import Reply, encode_reply

PATIENT_S = 30.0


def pointer(store: FakePayloads, id: str) -> Reply:
    """A pointer to a stored reply."""
    uri, value = f"s3://{RESULT_BUCKET}/{id}", encode_reply(id, "m", "1", {}, {})
    store.objects[uri] = FakeObject(value)
    return Reply(id, "m", "1", {}, ref=DataRef(uri, nbytes=len(value)))


async def test_who_waits_for_room_is_told_when_the_budget_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_replies, "MAX_BYTES_AT_ONCE", 1)
    store = FakePayloads()
    stored = StoredReplies(store)
    store.gate.clear()
    first = asyncio.create_task(stored.fetch(pointer(store, "a"), PATIENT_S))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENT_S / 2):
        with pytest.raises(PayloadUnavailable, match=r"s3://results/b within 0.05 s") as late:
            await stored.fetch(pointer(store, "b"), 0.05)
    assert (late.value.id, late.value.retryable) == ("b", True)
    assert store.asked == [("get", "s3://results/a")]
    store.gate.set()
    assert isinstance(await first, Reply)
    assert isinstance(await stored.fetch(pointer(store, "b"), PATIENT_S), Reply)  # who gave up has left its room
