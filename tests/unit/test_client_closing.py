"""A client that cannot be closed in order leaves nothing of its own open."""

import asyncio
from typing import Any

import pytest
from fake_payloads import DEFAULT_SETTINGS, FakePayloads

from producer_sdk import Client, _lifecycle
from producer_sdk.testing import MemoryBroker


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakePayloads:
    """The store that a client makes for itself and closes itself."""
    store = FakePayloads()
    monkeypatch.setattr(_lifecycle, "open_payloads", lambda s3: (store, store))
    return store


@pytest.mark.parametrize("what", ["_replies.close", "_connection.producer.stop", "_connection.admin.stop"])
async def test_the_store_is_closed_though_something_before_it_fails(
    store: FakePayloads, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    client = Client(MemoryBroker(), s3=DEFAULT_SETTINGS)
    await client.start()
    owner: Any = client
    *path, verb = what.split(".")
    for name in path:
        owner = getattr(owner, name)
    assert client._connection is not None
    admin = client._connection.admin
    stopped: list[bool] = []

    async def fail(*args: object) -> None:
        raise RuntimeError("it cannot be closed")

    stop = admin.stop

    async def note() -> None:
        stopped.append(True)
        await stop()

    monkeypatch.setattr(admin, "stop", note)
    monkeypatch.setattr(owner, verb, fail)
    with pytest.raises(RuntimeError, match="cannot be closed"):
        await client.close()
    assert store.closed
    assert stopped == ([] if owner is admin else [True])


async def test_the_store_is_closed_though_closing_is_cancelled(
    store: FakePayloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(MemoryBroker(), s3=DEFAULT_SETTINGS)
    await client.start()
    under_way, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        under_way.set()
        await never.wait()

    monkeypatch.setattr(client._replies, "close", hang)
    closing = asyncio.create_task(client.close())
    await under_way.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert store.closed
