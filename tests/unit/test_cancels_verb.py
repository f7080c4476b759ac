"""`headrace cancel`: every id is looked at before any is sent, and what is said is what is known."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from producer_sdk.broker import TopicPartition
from producer_sdk.cancels import read_cancel
from producer_sdk.errors import InvalidRequest
from producer_sdk.memory import MemoryBroker
from producer_sdk.settings import KafkaSettings

run = CliRunner().invoke


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    broker = MemoryBroker()
    monkeypatch.setattr(KafkaSettings, "broker", lambda self: broker)
    return broker


async def cancelled(broker: MemoryBroker) -> list[str]:
    place = TopicPartition("headrace.cancels", 0)
    reader = broker.reader(frozenset([place]), from_end=False)
    await reader.start()
    return [read_cancel(record.value).id for record in (await reader.poll(100, 0.0)).get(place, ())]


def test_each_id_is_cancelled_once(broker: MemoryBroker) -> None:
    result = run(app, ["cancel", "job-1", "headrace.m.async:0:7", "job-1"])
    assert (result.exit_code, result.output) == (0, "asked to end job-1\nasked to end headrace.m.async:0:7\n")
    assert asyncio.run(cancelled(broker)) == ["job-1", "headrace.m.async:0:7"]


def test_as_json_there_is_one_document(broker: MemoryBroker) -> None:
    assert json.loads(run(app, ["cancel", "a", "b", "--json"]).output) == {"asked": ["a", "b"]}


def test_one_bad_id_keeps_all_from_being_sent(broker: MemoryBroker) -> None:
    result = run(app, ["cancel", "good", "b a d"])
    assert isinstance(result.exception, InvalidRequest)
    assert asyncio.run(broker.admin().topics()) == {}
