"""A cluster that comes back and tells no topics at first is asked again: its topics have not ceased to exist."""

import asyncio

import pytest

from producer_sdk import _kafka_metadata as module
from producer_sdk._kafka_metadata import renew_metadata


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
