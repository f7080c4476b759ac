"""The gateway knows that Kafka is away before any caller has waited in vain, and says so once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping

import pytest

from gateway import contact
from gateway.contact import Contact
from producer_sdk.broker import BrokerError
from producer_sdk.testing import MemoryBroker


class Answers:
    """An admin client whose broker may go away: it refuses, or is silent."""

    def __init__(self) -> None:
        self.refuses = False
        self.there = asyncio.Event()
        self.there.set()
        self._admin = MemoryBroker().admin()

    def __getattr__(self, name: str) -> object:
        return getattr(self._admin, name)

    async def topics(self) -> Mapping[str, int]:
        if self.refuses:
            raise BrokerError("no broker")
        await self.there.wait()
        return {}


@pytest.fixture
def admin() -> Answers:
    return Answers()


@pytest.fixture
async def watched(admin: Answers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Contact]:
    monkeypatch.setattr(contact, "ASK_EVERY_S", 0.01)
    monkeypatch.setattr(contact, "JUDGE_EVERY_S", 0.01)
    monkeypatch.setattr(contact, "LOST_AFTER_S", 0.1)
    watched = Contact(admin, "Kafka at a:1")  # type: ignore[arg-type]
    watch = asyncio.create_task(watched.watch())
    yield watched
    watch.cancel()
    await asyncio.wait({watch})


async def until_lost(watched: Contact, lost: bool) -> None:
    for _ in range(200):
        if (watched.lost is not None) is lost:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"lost stays {watched.lost}")


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_broker_that_refuses_or_is_silent_is_lost_until_it_answers(
    watched: Contact, admin: Answers, caplog: pytest.LogCaptureFixture, refuses: bool
) -> None:
    caplog.set_level(logging.INFO, "headrace.gateway")
    await asyncio.sleep(0.2)
    assert watched.lost is None
    admin.refuses = refuses
    admin.there.clear()
    await until_lost(watched, True)
    assert watched.lost == "Kafka at a:1 has not answered for 0 s"
    await asyncio.sleep(0.1)
    admin.refuses = False
    admin.there.set()
    await until_lost(watched, False)
    assert [getattr(record, "action", "") for record in caplog.records] == ["kafka_lost", "kafka_back"]
