"""Who has no task to wait in is told each outcome once, by a call."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prompt_broker import PromptBroker

from producer_sdk import Client
from producer_sdk._call import check_plain_call
from producer_sdk._read_record import ReadRecord as Record
from producer_sdk.errors import Cancelled, DeadlineExceeded, HeadraceError, InvalidRequest
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Topics
from producer_sdk.wire import Reply, TensorReply, encode_reply

TOPIC = Topics().replies
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


class Raising(Told):
    def settle(self, outcome: Reply | HeadraceError) -> None:
        super().settle(outcome)
        raise RuntimeError("a fault of who waits")


async def test_a_fault_of_one_that_is_told_keeps_no_outcome_from_others(client: Client) -> None:
    for _ in range(2):  # the second time too: the timer goes on
        raising, told = Raising(), Told()
        assert client.infer_at_once("mlp", INPUTS, raising, id="a", deadline_s=0.01)
        assert client.infer_at_once("mlp", INPUTS, told, id="b", deadline_s=0.01)
        for _ in range(500):
            if told.outcomes:
                break
            await asyncio.sleep(0.01)
        assert [type(each) for each in raising.outcomes + told.outcomes] == [DeadlineExceeded] * 2


async def test_a_fault_of_one_that_is_told_loses_no_reply_beside_it(client: Client) -> None:
    raising, told = Raising(), Told()
    assert client.infer_at_once("mlp", INPUTS, raising, id="a")
    assert client.infer_at_once("mlp", INPUTS, told, id="b")

    records = [Record(TOPIC, 0, 0, 0, id, encode_reply(id.decode(), "mlp", "1", {}, {}), ()) for id in (b"a", b"b")]
    client._replies._handle(records)
    assert [type(each) for each in raising.outcomes + told.outcomes] == [TensorReply] * 2


async def test_a_call_of_many_outputs_is_not_kept(client: Client) -> None:
    check_plain_call.cache_clear()
    assert client.infer_at_once("mlp", INPUTS, Told(), id="a", outputs=tuple(map(str, range(9))))
    assert check_plain_call.cache_info().currsize == 0
    assert client.infer_at_once("mlp", INPUTS, Told(), id="b", outputs=("y",))
    assert check_plain_call.cache_info().currsize == 1
