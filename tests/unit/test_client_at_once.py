"""Who has no task to wait in is told each outcome once, by a call."""

from collections.abc import AsyncIterator

import pytest
from prompt_broker import PromptBroker

from producer_sdk import Client
from producer_sdk.errors import Cancelled, DeadlineExceeded, HeadraceError, InvalidRequest
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Reply

INPUTS = {"x": Tensor(Datatype.FP32, (1, 1), b"\0\0\0\0")}


class Told:
    def __init__(self) -> None:
        self.outcomes: list[Reply | HeadraceError] = []

    def settle(self, outcome: Reply | HeadraceError) -> None:
        self.outcomes.append(outcome)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    broker = PromptBroker()
    await ensure_system_topics(broker.admin(), Topics())
    await broker.admin().create_topics(model_topics(Topics(), "mlp", partitions=1))
    async with Client(broker, max_pending=2) as client:
        with pytest.raises(DeadlineExceeded):
            await client.infer("mlp", INPUTS, deadline_s=0.001)
        yield client


async def test_before_the_topic_was_looked_for_nothing_is_sent() -> None:
    async with Client(PromptBroker()) as client:
        assert not client.infer_at_once("mlp", INPUTS, Told(), id="a")
        assert client.counters.pending == 0


async def test_an_end_of_the_client_is_told(client: Client) -> None:
    told = Told()
    assert client.infer_at_once("mlp", INPUTS, told, id="a")
    await client.close()
    assert [type(outcome) for outcome in told.outcomes] == [Cancelled]


async def test_one_that_was_given_up_is_told_nothing_and_cancelled(client: Client) -> None:
    told = Told()
    assert client.infer_at_once("mlp", INPUTS, told, id="a", parameters={"top_k": 1})
    client.give_up("a")
    client.give_up("a")
    assert (client.counters.pending, told.outcomes) == (0, [])


@pytest.mark.parametrize("wrong", [{"id": "a b"}, {"deadline_s": -1.0}, {"tenant": ""}, {"lane": "fast"}])
async def test_a_wrong_argument_is_refused_at_once(client: Client, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        client.infer_at_once("mlp", INPUTS, Told(), **({"id": "a"} | wrong))  # type: ignore[arg-type]
    assert client.counters.pending == 0
