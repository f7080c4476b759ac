"""A cluster that comes back and tells no topics at first is asked again: its topics have not ceased to exist."""

import asyncio

import pytest
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from producer_sdk import _kafka_metadata as module
from producer_sdk._kafka_metadata import all_metadata, renew_metadata


class Client:
    """As aiokafka's: says False where no broker answered."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)

    async def force_metadata_update(self) -> bool:
        return self.answers.pop(0) if self.answers else False


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)


async def test_it_asks_until_a_broker_tells_the_topics() -> None:
    client = Client(False, False, True, True)
    await renew_metadata(client)
    assert client.answers == [True]


async def test_it_goes_on_until_its_time_is_up() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await renew_metadata(Client())


class Connections:
    """As aiokafka's client: raises its bare error where each connection that it has turns out to be stale."""

    def __init__(self, *faults: KafkaError) -> None:
        self.faults = list(faults)

    async def fetch_all_metadata(self) -> str:
        if self.faults:
            raise self.faults.pop(0)
        return "topics"


STALE = KafkaError("Unable to get cluster metadata over all known brokers")


async def test_topics_are_asked_for_until_a_broker_tells_them() -> None:
    assert await all_metadata(Connections(*[STALE] * 50)) == "topics"


async def test_asking_for_topics_ends_with_the_time_of_the_caller() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await all_metadata(Connections(*[STALE] * 1_000_000))


async def test_a_fault_that_the_broker_told_is_not_asked_for_again() -> None:
    client = Connections(TopicAuthorizationFailedError(), STALE)
    with pytest.raises(TopicAuthorizationFailedError):
        await all_metadata(client)
    assert client.faults == [STALE]
